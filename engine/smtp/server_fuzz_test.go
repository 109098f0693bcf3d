package smtp

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"probity/engine"
)

// FuzzServer: whatever a server sends, and however it is cut into packets, a session ends within its bounds of time, no
// recipient gets two replies, and none gets a reply from a group that ended out of step.
func FuzzServer(f *testing.F) {
	for _, words := range []string{
		"220 mx\r\n250-mx\r\n250 PIPELINING\r\n250 ok\r\n250 ok\r\n550 5.1.1 no\r\n250 ok\r\n221 bye\r\n",
		"220 mx\r\n250-mx\r\n250 STARTTLS\r\n220 go\r\n\x16\x03\x03\x00\x00",
		"220-\r\n220 \r\n502 what\r\n250 HELO\r\n421 bye\r\n", "554 no\r\n",
		"220 mx\n250 SIZE 99999999999999999999\n250 2.1.0 ok\n450 4.7.1 grey\n", "\x00\xff\r\n",
		"220 mx\r\n250-mx\r\n250 PIPELINING\r\n250 a\r\n250 b\r\n250 c\r\n250 d\r\n250 e\r\n",
	} {
		f.Add([]byte(words), byte(3), true)
		f.Add([]byte(words), byte(200), false)
	}
	f.Add([]byte("554 no\r\n"+strings.Repeat("y", 30_000)), byte(0), true) // goes on long after we have closed
	f.Fuzz(func(t *testing.T, words []byte, cut byte, closes bool) {
		synctest.Test(t, func(t *testing.T) {
			client, server := connect(64 << 10)
			var writer sync.WaitGroup
			defer func() {
				_, _ = client.Close(), server.Close()
				writer.Wait() // it sleeps, and the bubble's clock stops once this function has returned
			}()
			writer.Go(func() {
				for rest := words; len(rest) > 0; {
					n := min(len(rest), 1+int(cut))
					if _, err := server.Write(rest[:n]); err != nil {
						return
					}
					rest = rest[n:]
					time.Sleep(time.Millisecond)
				}
				if closes {
					_ = server.Close()
				}
			})
			began := time.Now()
			s, fault := Open(context.Background(), client,
				Config{EHLO: "probe.example.net", TLS: engine.TLSOpportunistic}, "mx")
			if (s == nil) == fault.None() {
				t.Fatalf("session %v, yet %s", s != nil, describe(fault))
			}
			if s != nil {
				told := map[int]int{}
				o := s.Transaction(context.Background(), manyRcpts(3), func(i int, _ engine.Reply) { told[i]++ })
				for i, n := range told {
					if n > 1 || i > 2 {
						t.Fatalf("recipient %d was told %d times", i, n)
					}
				}
				if o.Fault.Event == engine.EventOutOfStep && !s.Unusable() {
					t.Fatal("out of step, and used again")
				}
				s.Quit(context.Background())
			}
			if took := time.Since(began); took > 10*time.Minute {
				t.Fatal(took)
			}
		})
	})
}
