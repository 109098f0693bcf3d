package baseline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"

	"probity/bench/process"
)

// MaxInFlight bounds the unanswered queries of the bare DNS client, and of the resolver compared with it. They fit into
// a socket's usual buffer, in which a small datagram takes most of a KiB.
const MaxInFlight = 128

// AskNames queries the MX records of the names 0 to names-1 over one socket, with MaxInFlight queries in flight, and
// counts answers.
func AskNames(ctx context.Context, dial Dial, server netip.AddrPort, names int,
	nameOf func(int) string) (count Count, err error) {
	conn, err := dial(ctx, "udp", server.String())
	if err != nil {
		return count, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	start, before := time.Now(), process.OwnCPU()
	slots := make(chan struct{}, MaxInFlight)
	answered := make(chan int, 1)
	stopped := make(chan struct{}) // closed when no more answers are read
	go func() {
		defer close(stopped)
		answered <- readAnswers(conn, slots, names)
	}()
	err = sendQuestions(conn, slots, stopped, names, nameOf)
	if err != nil {
		conn.Close() // ends readAnswers
	}
	count.Recipients = <-answered
	count.Lost = names - count.Recipients
	count.Elapsed, count.CPU = time.Since(start), process.OwnCPU()-before
	count.Connections = 1
	if count.Lost > 0 {
		err = errors.Join(err, fmt.Errorf("the bare DNS client lost %d answers", count.Lost))
	}
	return count, errors.Join(err, ctx.Err())
}

// sendQuestions sends a query for every name, each when there is a free slot.
func sendQuestions(conn net.Conn, slots chan<- struct{}, stopped <-chan struct{}, names int,
	nameOf func(int) string) error {
	var b []byte
	for i := range names {
		select {
		case slots <- struct{}{}:
		case <-stopped:
			return errors.New("the name server has stopped answering")
		}
		b = appendQuestion(b[:0], uint16(i), nameOf(i))
		if _, err := conn.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// appendQuestion appends a query for MX records, recursion desired.
func appendQuestion(b []byte, id uint16, name string) []byte {
	b = binary.BigEndian.AppendUint16(b, id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0, 0, byte(dns.TypeMX), 0, 1)
}

// answerTimeout is how long an answer may take before it counts as lost.
const answerTimeout = 2 * time.Second

// readAnswers reads answers until all have come, one is lost, or the connection is closed.
func readAnswers(conn net.Conn, slots <-chan struct{}, names int) (answered int) {
	b := make([]byte, 4096)
	for answered < names {
		if answered%MaxInFlight == 0 && conn.SetReadDeadline(time.Now().Add(answerTimeout)) != nil {
			return answered
		}
		if _, err := conn.Read(b); err != nil {
			return answered
		}
		answered++
		<-slots
	}
	return answered
}
