package smtp

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"probity/engine"
	"probity/internal/memnet"
)

// overSockets runs a server on a real socket and returns our end of a connection to it.
func overSockets(tb testing.TB, serve func(net.Conn)) net.Conn {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Skip("no loopback:", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if conn, err := ln.Accept(); err == nil {
			serve(conn)
			_ = conn.Close()
		}
	}()
	conn, err := dialFrom(context.Background(), netip.MustParseAddr("127.0.0.1"), "tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_, _ = conn.Close(), ln.Close()
		<-served
	})
	return conn
}

// wrapped is a connection within another, which names it.
type wrapped struct{ net.Conn }

func (w wrapped) NetConn() net.Conn { return w.Conn }

// answerTwice is a server over clear text or TLS that answers the command word twice. said is closed once the second
// reply is sent, and nothing else is sent until the client has sent its next command.
func answerTwice(word string, withTLS bool, said chan struct{}) func(net.Conn) {
	return func(raw net.Conn) {
		conn, in := raw, bufio.NewReader(raw)
		_, _ = io.WriteString(conn, "220 mx\r\n")
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			reply := "250 2.0.0 ok\r\n"
			switch {
			case strings.HasPrefix(line, "EHLO") && withTLS && conn == raw:
				reply = "250-mx\r\n250 STARTTLS\r\n"
			case strings.HasPrefix(line, "STARTTLS"):
				_, _ = io.WriteString(conn, "220 go\r\n")
				conn = tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{certificate()}})
				in = bufio.NewReader(conn)
				continue
			}
			_, _ = io.WriteString(conn, reply)
			if strings.HasPrefix(line, word) && (!withTLS || conn != raw) {
				time.Sleep(5 * time.Millisecond) // a segment of its own
				_, _ = io.WriteString(conn, "550 no such user\r\n")
				close(said)
				word = "none"
			}
		}
	}
}

// TestReplyToNoCommandIsSeenInTheSocket: bytes that no read has met yet, in clear and within TLS, whose tickets are no
// reply; through wrappers too.
func TestReplyToNoCommandIsSeenInTheSocket(t *testing.T) {
	for name, tt := range map[string]struct {
		word    string
		withTLS bool
	}{"EHLO": {"EHLO", false}, "RCPT": {"RCPT", false}, "EHLO over TLS": {"EHLO", true},
		"RCPT over TLS": {"RCPT", true}} {
		t.Run(name, func(t *testing.T) {
			said := make(chan struct{})
			conn := wrapped{overSockets(t, answerTwice(tt.word, tt.withTLS, said))}
			s, f := Open(t.Context(), conn, Config{EHLO: "probe.example.net"}, "mx")
			if s == nil || s.secure != tt.withTLS {
				t.Fatal(describe(f))
			}
			if tt.word == "RCPT" {
				s.Transaction(t.Context(), manyRcpts(1), func(int, engine.Reply) {})
			}
			<-said
			arrivedWithin(t, s)
			o := s.Transaction(t.Context(), manyRcpts(1),
				func(int, engine.Reply) { t.Error("a recipient was answered") })
			if o.Fault.Event != engine.EventOutOfStep || !s.Unusable() {
				t.Error(describe(o.Fault))
			}
			s.Close()
		})
	}
}

// arrivedWithin waits until the kernel has what was sent over loopback.
func arrivedWithin(t *testing.T, s *Session) {
	t.Helper()
	for began := time.Now(); !newPollConn(s.raw).arrived(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Fatal("it has not arrived")
		}
	}
}

// TestPollWaitsForNothing: an honest server that says nothing between commands is no fault, and its end is met by the
// next read.
func TestPollWaitsForNothing(t *testing.T) {
	for name, withTLS := range map[string]bool{"clear": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			conn := overSockets(t, answerTwice("none", withTLS, nil))
			s, f := Open(t.Context(), conn, Config{EHLO: "probe.example.net"}, "mx")
			if s == nil || s.secure != withTLS {
				t.Fatal(describe(f))
			}
			for range 3 {
				if o := s.Transaction(t.Context(), manyRcpts(2), func(int, engine.Reply) {}); o.Answered != 2 {
					t.Fatal(describe(o.Fault))
				}
			}
			s.Close()
		})
	}
}

// TestMemoryIsPolledAsSocketsAre: the network that tests of the prober run on.
func TestMemoryIsPolledAsSocketsAre(t *testing.T) {
	a := netip.MustParseAddrPort("127.0.0.1:1")
	near, far := memnet.Pair(a, a)
	c := newPollConn(wrapped{near})
	if c.arrived() {
		t.Error("nothing was sent")
	}
	_, _ = io.WriteString(far, "x")
	if !c.arrived() {
		t.Error("a byte has arrived")
	}
	_, _ = c.Read(make([]byte, 1))
	if c.arrived() {
		t.Error("it was read")
	}
	_ = far.Close()
	if !c.arrived() {
		t.Error("an end has arrived")
	}
}

// BenchmarkTransactionOverSockets is a pipelined group of 50 recipients, and of one, over loopback: with the poll, and
// without.
func BenchmarkTransactionOverSockets(b *testing.B) {
	for _, n := range []int{1, 50} {
		for name, hide := range map[string]bool{"polled": false, "not polled": true} {
			b.Run(name, func(b *testing.B) {
				var conn net.Conn = overSockets(b, answerFast)
				if hide {
					conn = &countingConn{Conn: conn} // which does not name the socket
				}
				s, f := Open(b.Context(), conn, Config{EHLO: "probe.example.net", MaxBytes: 1 << 40}, "mx")
				if s == nil {
					b.Fatal(describe(f))
				}
				rcpts := manyRcpts(n)
				b.ReportAllocs()
				for b.Loop() {
					if o := s.Transaction(b.Context(), rcpts, func(int, engine.Reply) {}); o.Answered != n {
						b.Fatal(describe(o.Fault))
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/rcpt")
				s.Close()
			})
		}
	}
}

// BenchmarkPoll is one look at a socket in which nothing has arrived.
func BenchmarkPoll(b *testing.B) {
	c := newPollConn(overSockets(b, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	b.ReportAllocs()
	for b.Loop() {
		if c.arrived() {
			b.Fatal("nothing was sent")
		}
	}
}
