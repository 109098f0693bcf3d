package service_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordingProxy is a SOCKS5 proxy (RFC 1928) that records the recipients of its clients. To read along, it removes the
// STARTTLS offer, as some firewalls do.
type recordingProxy struct {
	listener net.Listener
	clients  sync.WaitGroup
	closed   chan struct{} // closed when the listener is

	mu         sync.Mutex     // guards what follows
	recipients map[string]int // by recipient, as sent in RCPT TO
	total      int
	stopAt     int
	reached    chan struct{} // closed at the goal
}

// newRecordingProxy listens on loopback. It closes reached after goal recipients.
func newRecordingProxy(t *testing.T, goal int) *recordingProxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &recordingProxy{listener: l, closed: make(chan struct{}), recipients: map[string]int{}, stopAt: goal,
		reached: make(chan struct{})}
	go w.serve()
	return w
}

func (w *recordingProxy) addr() string { return w.listener.Addr().String() }

// close waits until the last client has ended.
func (w *recordingProxy) close() {
	_ = w.listener.Close()
	<-w.closed
	w.clients.Wait()
}

func (w *recordingProxy) serve() {
	defer close(w.closed)
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.clients.Go(func() {
			defer c.Close()
			// A killed client may leave half a command: what was read counts.
			_ = w.relay(c.(*net.TCPConn))
		})
	}
}

// relay connects a client to its target and reads both sides.
func (w *recordingProxy) relay(client *net.TCPConn) error {
	in := bufio.NewReader(client)
	to, err := readSOCKSRequest(client, in)
	if err != nil {
		return err
	}
	server, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
	if err != nil {
		_, err = client.Write(socksRefused)
		return err
	}
	defer server.Close()
	if _, err = client.Write(socksGranted); err != nil {
		return err
	}
	var replies sync.WaitGroup
	replies.Go(func() { _ = relayWithoutSTARTTLS(client, server) })
	err = w.relayCommands(server, in)
	err = errors.Join(err, server.CloseWrite())
	replies.Wait()
	return err
}

// relayWithoutSTARTTLS forwards the server's replies.
func relayWithoutSTARTTLS(client, server *net.TCPConn) error {
	b := make([]byte, 16<<10)
	for {
		n, err := server.Read(b)
		if _, failed := client.Write(bytes.ReplaceAll(b[:n], []byte("STARTTLS"), []byte("XXXXXXXX"))); failed != nil {
			err = failed
		}
		if err != nil {
			return errors.Join(err, client.CloseWrite())
		}
	}
}

// relayCommands forwards the client's commands, one on each line, and records the recipients.
func (w *recordingProxy) relayCommands(server io.Writer, in *bufio.Reader) error {
	out := bufio.NewWriter(server)
	for {
		line, err := in.ReadBytes('\n')
		if rest, ok := bytes.CutPrefix(line, []byte("RCPT TO:<")); ok {
			w.record(string(rest[:max(0, bytes.IndexByte(rest, '>'))]))
		}
		if _, failed := out.Write(line); failed != nil {
			return failed
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

func (w *recordingProxy) record(recipient string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recipients[recipient]++
	w.total++
	if w.total == w.stopAt {
		close(w.reached)
	}
}
