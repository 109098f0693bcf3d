package smtp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"probity/engine"
)

// serveLineByLine answers each line as it comes: 220 first, EHLO with PIPELINING, then 250; it never reads ahead of its
// writes.
func serveLineByLine(conn net.Conn, reply func(line string) string) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 16)
	_, _ = io.WriteString(conn, "220 mx\r\n")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, reply(line)); err != nil || strings.HasPrefix(line, "QUIT") {
			return
		}
	}
}

func acceptAll(line string) string {
	if strings.HasPrefix(line, "EHLO") {
		return "250-mx\r\n250 PIPELINING\r\n"
	}
	return "250 2.1.5 OK\r\n"
}

func manyRcpts(n int) []Rcpt {
	rcpts := make([]Rcpt, n)
	for i := range rcpts {
		rcpts[i] = Rcpt{Local: fmt.Sprintf("user%d", i), Domain: "example.org"}
	}
	return rcpts
}

// A group far larger than all buffers together must pass: over net.Pipe, which has none, and over small ones.
func TestGroupNeverDeadlocks(t *testing.T) {
	for name, connectTo := range map[string]func() (net.Conn, net.Conn){
		"no buffer":    net.Pipe,
		"small buffer": func() (net.Conn, net.Conn) { a, b := connect(64); return a, b },
	} {
		t.Run(name, func(t *testing.T) {
			client, server := connectTo()
			go serveLineByLine(server, acceptAll)
			s, f := Open(t.Context(), client, Config{EHLO: "probe.example.net"}, "mx")
			if s == nil {
				t.Fatal(describe(f))
			}
			for range 2 {
				o := s.Transaction(t.Context(), manyRcpts(5000), func(int, engine.Reply) {})
				if o.Answered != 5000 || !o.Fault.None() {
					t.Fatalf("answered %d, %s", o.Answered, describe(o.Fault))
				}
			}
			s.Quit(t.Context())
		})
	}
}

// A cancelled call returns at once, in every phase, and leaves no goroutine.
func TestCancellationEndsTheSession(t *testing.T) {
	for _, hangs := range []string{"", "EHLO", "MAIL", "RCPT TO:<user3"} {
		t.Run("at "+hangs, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { cancelDuring(t, hangs) })
		})
	}
}

func cancelDuring(t *testing.T, hangs string) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	client, server := connect(256)
	over := make(chan struct{})
	defer close(over)
	if hangs != "" {
		go serveLineByLine(server, func(line string) string {
			if strings.HasPrefix(line, hangs) {
				<-over
			}
			return acceptAll(line)
		})
	} else {
		defer server.Close()
	}
	start := time.Now()
	s, f := Open(ctx, client, Config{EHLO: "probe.example.net"}, "mx")
	if s != nil {
		f = s.Transaction(ctx, manyRcpts(100), func(int, engine.Reply) {}).Fault
		if !s.Unusable() {
			t.Error("still usable")
		}
		s.Quit(ctx)
	}
	if f.Event != engine.EventInternal || time.Since(start) > 4*time.Second {
		t.Errorf("%s after %s", describe(f), time.Since(start))
	}
}

// A caller's deadline that passes is a timeout, which may be the peer's fault.
func TestCallerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		client, server := connect(256)
		defer server.Close()
		if _, f := Open(ctx, client, Config{EHLO: "probe.example.net"}, "mx"); f.Event != engine.EventTimeout {
			t.Error(describe(f))
		}
	})
}

// A server that sends each reply just in time is bounded by the time of the transaction.
func TestTransactionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := connect(64 << 10)
		var over sync.WaitGroup
		over.Go(func() {
			serveLineByLine(server, func(line string) string {
				if strings.HasPrefix(line, "RCPT") {
					time.Sleep(21 * time.Second)
				}
				return acceptAll(line)
			})
		})
		s, _ := Open(t.Context(), client, Config{EHLO: "probe.example.net"}, "mx")
		start := time.Now()
		o := s.Transaction(t.Context(), manyRcpts(50), func(int, engine.Reply) {})
		if o.Fault.Event != engine.EventTimeout || time.Since(start) != 5*time.Minute || o.Answered != 14 {
			t.Errorf("%s after %s, %d answered", describe(o.Fault), time.Since(start), o.Answered)
		}
		s.Close()
		over.Wait()
	})
}

func TestSessionIsBoundedInBytes(t *testing.T) {
	client, server := connect(64 << 10)
	go serveLineByLine(server, func(line string) string {
		if strings.HasPrefix(line, "EHLO") {
			return acceptAll(line)
		}
		return "250 " + strings.Repeat("long ", 100) + "\r\n"
	})
	s, _ := Open(t.Context(), client, Config{EHLO: "probe.example.net", MaxBytes: 8 << 10}, "mx")
	if o := s.Transaction(t.Context(), manyRcpts(100),
		func(int, engine.Reply) {}); o.Fault.Event != engine.EventOutOfStep {
		t.Error(describe(o.Fault))
	}
	s.Close()
}

// A recipient that would break its command line is never sent, and is a fault on our side.
func TestUnsendableRcpt(t *testing.T) {
	for local, want := range map[string]bool{
		"ann": true, "ann+tag": true, "o'neil": true, `"a b"`: true, `"a\"b"`: true, "üller": true,
		"a\r\nDATA": false, "a b": false, "a>": false, `a"b`: false, `"a"b"`: false, `"a\"`: false, "": false,
		"a\x00":                  false,
		strings.Repeat("a", 600): false,
	} {
		if got := (Rcpt{Local: local, Domain: "example.org"}).sendable(); got != want {
			t.Errorf("%q: %v", local, got)
		}
	}
	if (Rcpt{Local: "ann", Domain: "example.org> X"}).sendable() {
		t.Error("a domain with a bracket")
	}
	client, server := connect(1 << 10)
	go serveLineByLine(server, acceptAll)
	s, _ := Open(t.Context(), client, Config{EHLO: "probe.example.net"}, "mx")
	o := s.Transaction(t.Context(), []Rcpt{{Local: "a\r\nDATA", Domain: "example.org"}}, nil)
	if o.Fault.Event != engine.EventInternal || s.Unusable() {
		t.Error(describe(o.Fault))
	}
	s.Quit(t.Context())
}

func BenchmarkTransaction(b *testing.B) {
	client, server := connect(64 << 10)
	go answerFast(server)
	s, f := Open(b.Context(), client, Config{EHLO: "probe.example.net", MaxBytes: 1 << 40}, "mx")
	if s == nil {
		b.Fatal(describe(f))
	}
	rcpts := manyRcpts(50)
	b.ReportAllocs()
	for b.Loop() {
		if o := s.Transaction(b.Context(), rcpts, func(int, engine.Reply) {}); o.Answered != 50 {
			b.Fatal(describe(o.Fault))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*50), "ns/rcpt")
	s.Quit(b.Context())
}

// answerFast answers all lines of a read at once.
func answerFast(conn net.Conn) {
	defer conn.Close()
	_, _ = io.WriteString(conn, "220 mx\r\n")
	buf := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		lines := strings.Count(string(buf[:n]), "\n")
		if strings.HasPrefix(string(buf[:n]), "EHLO") {
			_, _ = io.WriteString(conn, "250-mx\r\n250 PIPELINING\r\n")
			continue
		}
		_, _ = io.WriteString(conn, strings.Repeat("250 2.1.5 OK\r\n", lines))
	}
}
