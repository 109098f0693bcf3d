//go:build linux

package mta

import (
	"fmt"
	"net"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Sender addresses of a prober.
const (
	goodSender    = "probe@prober.example"  // a mailbox that exists
	missingSender = "nobody@prober.example" // its server refuses it
	silentSender  = "probe@silent.example"  // its server cannot be reached
	unknownSender = "probe@nowhere.example" // its domain does not exist
)

// startSenderServer is the mail server of the prober's own domain, which servers call back before they answer the
// prober. It has one mailbox and accepts no message.
func startSenderServer(t *testing.T, at string) {
	listener, err := net.Listen("tcp", at)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go answerCallout(c)
		}
	}()
}

// answerCallout serves one client until it closes, or for a minute.
func answerCallout(c net.Conn) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(time.Minute)) != nil {
		return
	}
	in := textproto.NewConn(c)
	reply := func(line string) { fmt.Fprintf(c, "%s\r\n", line) } // a closed connection shows at the next read
	reply("220 mx.prober.example ESMTP")
	for {
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		switch verb, rest, _ := strings.Cut(line, " "); strings.ToUpper(verb) {
		case "EHLO", "HELO":
			reply("250 mx.prober.example")
		case "RCPT":
			if strings.Contains(strings.ToLower(rest), "<"+goodSender+">") {
				reply("250 2.1.5 Ok")
			} else {
				reply("550 5.1.1 User unknown")
			}
		case "QUIT":
			reply("221 2.0.0 Bye")
			return
		default:
			reply("250 2.0.0 Ok")
		}
	}
}
