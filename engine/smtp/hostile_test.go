package smtp

import (
	"bufio"
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"probity/engine"
)

// What one hostile server can cost at most.
const (
	hostileSessions = 100
	hostileBytes    = 1<<20 + 64<<10 // read: MaxBytes, and what is in a buffer when that is seen
	hostileMemory   = 1 << 20        // allocated for a session, TLS and both sides' pipes included
)

// countingConn counts what is read of a connection.
type countingConn struct {
	net.Conn
	read int
}

func (m *countingConn) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	m.read += n
	return n, err
}

// writeForever writes the same text until the connection is closed; drip waits before each write.
func writeForever(words string) func(net.Conn) { return writeSlowly(words, 0) }

func writeSlowly(words string, each time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for {
			if each > 0 {
				time.Sleep(each)
			}
			if _, err := io.WriteString(c, words); err != nil {
				return
			}
		}
	}
}

// honestUntil answers as an honest server until a command begins with word, and then does something else.
func honestUntil(word string, then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		_, _ = io.WriteString(c, "220 mx\r\n")
		for {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				return
			case strings.HasPrefix(line, word):
				then(c)
				return
			case strings.HasPrefix(line, "EHLO"):
				_, _ = io.WriteString(c, "250-mx\r\n250-PIPELINING\r\n250 STARTTLS\r\n")
			default:
				_, _ = io.WriteString(c, "250 ok\r\n")
			}
		}
	}
}

// noise are bytes that are neither lines nor TLS.
var noise = strings.Repeat("\x16\x03\x01\x40\x00\x00\xff\r", 512)

// TestHostileServers: with any server, each session ends within its time, has read no more than its bound and
// kept little memory, and nothing that the server sent counts as an answer about a recipient.
func TestHostileServers(t *testing.T) {
	for _, c := range []struct {
		name   string
		server func(net.Conn)
		within time.Duration
		tls    engine.TLSPolicy
	}{
		{"endless banner line", writeForever("220 mx " + strings.Repeat("x", 4000)), time.Second, engine.TLSNever},
		{"endless multiline banner", writeForever("220-mx\r\n"), time.Second, engine.TLSNever},
		{"banner flood", writeForever("220 mx\r\n"), 5 * time.Second, engine.TLSNever},
		{"binary flood", writeForever(noise), time.Second, engine.TLSNever},
		{"empty lines", writeForever("\r\n"), time.Second, engine.TLSNever},
		{"bare line feeds", writeForever("\n"), time.Second, engine.TLSNever},
		{"byte drip", writeSlowly("2", time.Second), 35 * time.Second, engine.TLSNever},
		{"line drip", writeSlowly("220-mx\r\n", 10*time.Second), 35 * time.Second, engine.TLSNever},
		{"silence", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, 35 * time.Second, engine.TLSNever},
		{"endless offers", honestUntil("EHLO", writeForever("250-X-OFFER "+strings.Repeat("y", 100)+"\r\n")),
			time.Second, engine.TLSNever},
		{"replies out of step", honestUntil("MAIL", writeForever("250 ok\r\n")), 5 * time.Second, engine.TLSNever},
		{"replies of another kind", honestUntil("MAIL", writeForever("354 go ahead\r\n")), 5 * time.Second,
			engine.TLSNever},
		{"tarpit", honestUntil("MAIL", writeSlowly("250 ok\r\n", 25*time.Second)), 6 * time.Minute, engine.TLSNever},
		{"injection before TLS", honestUntil("STARTTLS", writeForever("220 ready\r\n250 injected\r\n")),
			35 * time.Second, engine.TLSOpportunistic},
		{"noise for a handshake", honestUntil("STARTTLS",
			func(c net.Conn) { _, _ = io.WriteString(c, "220 ready\r\n"); writeForever(noise)(c) }), 35 * time.Second,
			engine.TLSOpportunistic},
		{"silence for a handshake", honestUntil("STARTTLS",
			func(c net.Conn) { _, _ = io.WriteString(c, "220 ready\r\n"); _, _ = io.Copy(io.Discard, c) }),
			35 * time.Second, engine.TLSOpportunistic},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			synctest.Test(t, func(t *testing.T) {
				var all sync.WaitGroup
				for range hostileSessions {
					all.Go(func() {
						if told := runHostileSession(t, c.server, c.within, c.tls); told > 0 && c.name != "tarpit" {
							t.Errorf("%d recipients were told what nobody said about them", told)
						}
					})
				}
				all.Wait()
			})
			runtime.ReadMemStats(&now)
			if each := (now.TotalAlloc - before.TotalAlloc) / hostileSessions; each > hostileMemory {
				t.Errorf("%d bytes were allocated for a session, bound %d", each, hostileMemory)
			}
		})
	}
}

// runHostileSession runs one session with a hostile server to its end and returns how many recipients got a reply.
func runHostileSession(t *testing.T, server func(net.Conn), within time.Duration, tls engine.TLSPolicy) (told int) {
	client, far := connect(4 << 10)
	served := make(chan struct{})
	go func() { defer close(served); defer far.Close(); server(far) }()
	m, began := &countingConn{Conn: client}, time.Now()
	s, _ := Open(context.Background(), m, Config{EHLO: "probe.example.net", TLS: tls}, "mx.example")
	if s != nil {
		s.Transaction(context.Background(), manyRcpts(20), func(int, engine.Reply) { told++ })
		s.Quit(context.Background())
	}
	if took := time.Since(began); took > within {
		t.Errorf("it took %s, bound %s", took, within)
	}
	if m.read > hostileBytes {
		t.Errorf("%d bytes were read, bound %d", m.read, hostileBytes)
	}
	_ = m.Close()
	<-served
	return told
}
