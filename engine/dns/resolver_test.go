package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"probity/engine"
)

func single(text string) *fakeNetwork {
	return &fakeNetwork{servers: map[netip.AddrPort]handler{first: parseZone(text).handle}}
}

func pair(a, b handler) *fakeNetwork {
	return &fakeNetwork{servers: map[netip.AddrPort]handler{first: a, second: b}}
}

// Answers are kept as long as their TTL says, within bounds; failures for a short time; NODATA without a SOA not at
// all.
func TestLifetimes(t *testing.T) {
	const text = `
short.example.  1      MX 10 mx.short.example.
day.example.    86400  MX 10 mx.day.example.
hour.example.   3600   MX 10 mx.hour.example.
broken.example. SERVFAIL
`
	for _, c := range []struct {
		domain string
		noSOA  bool
		keep   time.Duration
	}{
		{"short.example", false, 30 * time.Second},
		{"hour.example", false, time.Hour},
		{"day.example", false, 6 * time.Hour},
		{"absent.example", false, 300 * time.Second}, // the SOA's MINIMUM
		{"absent.example", true, 0},
		{"broken.example", false, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			z := parseZone(text)
			z.noSOA = c.noSOA
			n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: z.handle}}
			r := n.start(t, func(cfg *Config) { cfg.Attempts = 1 })
			r.Route(t.Context(), c.domain)
			n.log()
			if c.keep > 0 {
				time.Sleep(c.keep - time.Millisecond)
				if _, ok := r.CachedRoute(c.domain); !ok {
					t.Errorf("%s is not cached after %s", c.domain, c.keep)
				}
				r.Route(t.Context(), c.domain)
				if n.log() != "" {
					t.Errorf("%s was not kept for %s", c.domain, c.keep)
				}
			}
			time.Sleep(2 * time.Millisecond)
			r.Route(t.Context(), c.domain)
			if n.log() == "" {
				t.Errorf("%s was kept longer than %s", c.domain, c.keep)
			}
		})
	}
}

// A cached route tells when the DNS gave the answer.
func TestRouteTellsItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := single(examples).start(t, nil)
		found := time.Now()
		for range 3 {
			if got := r.Route(t.Context(), "plain.example"); !got.FoundAt.Equal(found) {
				t.Errorf("found at %s, want %s", got.FoundAt, found)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestConcurrentLookupsShareOneQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := single(examples)
		n.delay = time.Second
		r := n.start(t, nil)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if r.Route(t.Context(), "plain.example").Fact != engine.FactMX {
					t.Error("no route")
				}
			})
		}
		wg.Wait()
		if got := n.log(); got != "1 plain.example. MX" {
			t.Error(got)
		}
	})
}

// A caller whose context ends gets no answer; those that wait for the same lookup still get one.
func TestCancelledCallerDoesNotSpoilTheLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := single(examples)
		n.delay = time.Second
		r := n.start(t, nil)
		cancelled, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := r.Route(cancelled, "plain.example").Fact; got != engine.FactDNSTimeout {
				t.Error("hasty:", got)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if got := r.Route(t.Context(), "plain.example").Fact; got != engine.FactMX {
				t.Error("patient:", got)
			}
		})
		wg.Wait()
	})
}

func TestSilentServerIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := true
		dumb := func(q *dns.Msg, tcp bool) []byte {
			if silent {
				return nil
			}
			return parseZone("").handle(q, tcp)
		}
		var text strings.Builder
		for i := range 10 {
			fmt.Fprintf(&text, "d%d.example. 600 MX 10 mx.example.\n", i)
		}
		n := pair(dumb, parseZone(text.String()).handle)
		r := n.start(t, nil)
		start := time.Now()
		for i := range 5 {
			if got := r.Route(t.Context(), fmt.Sprintf("d%d.example", i)).Fact; got != engine.FactMX {
				t.Error(i, got)
			}
		}
		if took := time.Since(start); took != 6*time.Second { // three timeouts, then it is down
			t.Error(took)
		}
		n.log()
		time.Sleep(downFor)
		silent = false
		r.Route(t.Context(), "d7.example")
		if got := n.log(); !strings.HasPrefix(got, "1 d7") {
			t.Error("a rested server is asked again:", got)
		}
	})
}

// TestSilentServersAreFound: a server that answers nothing is one, not a server that answers with failures, or not for
// some domains.
func TestSilentServersAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		zone          string
		silent, never bool
	}{
		"answers nothing":          {". SILENT\ngone.example. SILENT", true, true},
		"answers not for a domain": {"gone.example. SILENT", false, false},
		"answers with failures":    {". SERVFAIL\ngone.example. SERVFAIL", false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			z := parseZone(c.zone)
			r := (&fakeNetwork{servers: map[netip.AddrPort]handler{first: z.handle}}).start(t, nil)
			if got := r.NeverAnswered(); got != nil {
				t.Error(name, "nothing was asked", got)
			}
			r.Route(t.Context(), "gone.example")
			if got := r.SilentServers(t.Context()); slices.Equal(got, []netip.AddrPort{first}) != c.silent ||
				r.servers.silent() != len(got) {
				t.Error(name, got, r.servers.silent())
			}
			if got := r.NeverAnswered(); slices.Equal(got, []netip.AddrPort{first}) != c.never {
				t.Error(name, got)
			}
			z.words = nil // it answers again
			r.Route(t.Context(), "new.example")
			if r.servers.silent() != 0 {
				t.Error(name, "silent for ever")
			}
			if got := r.SilentServers(t.Context()); got != nil {
				t.Error(name, got)
			}
		})
	}
}

func TestTriesAreBounded(t *testing.T) {
	for text, want := range map[string]string{
		"x.example. SILENT":   "1 x.example. MX, 2 x.example. MX, 1 x.example. MX",
		"x.example. SERVFAIL": "1 x.example. MX, 2 x.example. MX, 1 x.example. MX",
	} {
		synctest.Test(t, func(t *testing.T) {
			n := pair(parseZone(text).handle, parseZone(text).handle)
			n.start(t, nil).Route(t.Context(), "x.example")
			if got := n.log(); got != want {
				t.Error(text, got)
			}
		})
	}
}

// Replies that do not match the pending query are dropped, and the true one is waited for.
func TestForgeriesAreDropped(t *testing.T) {
	forge := map[string]func(m *dns.Msg){
		"id":       func(m *dns.Msg) { m.Id++ },
		"question": func(m *dns.Msg) { m.Question[0].Name = "other.example." },
		"type":     func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeA },
		"class":    func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS },
		"query":    func(m *dns.Msg) { m.Response = false },
		"opcode":   func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate },
		"empty":    func(m *dns.Msg) { m.Question = nil },
		"sender":   nil,
	}
	for name, change := range forge {
		synctest.Test(t, func(t *testing.T) {
			n := single(examples)
			n.delay = 10 * time.Millisecond
			socks := make(chan *packetConn, 1)
			r := n.start(t, func(cfg *Config) {
				cfg.Sockets = 1
				cfg.ListenPacket = func(ctx context.Context, a, b string) (net.PacketConn, error) {
					c, err := n.listen(ctx, a, b)
					socks <- c.(*packetConn)
					return c, err
				}
			})
			n.servers[first] = func(q *dns.Msg, tcp bool) []byte {
				m := new(dns.Msg).SetReply(q)
				m.Answer = []dns.RR{rr("plain.example. 600 MX 1 evil.example.")}
				from := first
				if change != nil {
					change(m)
				} else {
					from = second
				}
				sock := <-socks
				sock.inbox <- packet{pack(m), from}
				return parseZone(examples).handle(q, tcp)
			}
			if got := r.Route(t.Context(), "plain.example").Hosts; len(got) != 2 || got[0] != "mx.plain.example" {
				t.Error(name, got)
			}
		})
	}
}

// A server without EDNS0 is queried again without it.
func TestWithoutEDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := parseZone(examples)
		n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: func(q *dns.Msg, tcp bool) []byte {
			if q.IsEdns0() == nil {
				return z.handle(q, tcp)
			}
			head := pack(new(dns.Msg).SetRcode(q, dns.RcodeFormatError))[:headerLen]
			binary.BigEndian.PutUint16(head[4:], 0)
			return head
		}}}
		if got := n.start(t, nil).Route(t.Context(), "plain.example").Fact; got != engine.FactMX {
			t.Error(got)
		}
	})
}

// A server that truncates and then refuses TCP has failed.
func TestTruncatedAnswerWithoutTCPFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: func(q *dns.Msg, tcp bool) []byte {
			if tcp {
				return nil
			}
			m := new(dns.Msg).SetReply(q)
			m.Truncated = true
			return pack(m)
		}}}
		start := time.Now()
		if got := n.start(t, nil).Route(t.Context(), "plain.example").Fact; got != engine.FactDNSTimeout ||
			time.Since(start) != 6*time.Second {
			t.Error(got, time.Since(start))
		}
	})
}

func TestInFlightIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := single("")
		n.delay = 100 * time.Millisecond
		r := n.start(t, func(cfg *Config) { cfg.MaxInFlight = 10; cfg.Attempts = 1 })
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { r.Route(t.Context(), fmt.Sprintf("d%d.example", i)) })
		}
		wg.Wait()
		if n.peak != 10 {
			t.Error(n.peak)
		}
	})
}

// A burst must fit into a server's buffer, but no caller waits until another is answered. A caller that is cancelled
// before its query was sent sends none, and at the end of Run no caller is left waiting.
func TestBurstsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := single("")
		n.delay = time.Second
		r := n.start(t, func(cfg *Config) { cfg.Attempts = 1 })
		cancelled, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var wg sync.WaitGroup
		fetch := func(ctx context.Context, from, to int) {
			for i := range to - from {
				wg.Go(func() { r.Route(ctx, fmt.Sprintf("d%d.example", from+i)) })
			}
			synctest.Wait()
		}
		fetch(t.Context(), 0, 3*burst)
		fetch(cancelled, 3*burst, 4*burst)
		time.Sleep(replyWindow / 2)
		if asked := strings.Count(n.log(), "d"); asked != burst {
			t.Error("at one time:", asked)
		}
		cancel()
		wg.Wait()
		// NXDOMAIN, and what the root is
		if took := time.Since(began); took < 2*n.delay+2*silentWindow || took > 2*n.delay+4*silentWindow {
			t.Error(took)
		}
		if asked := strings.Count(n.log(), " d"); asked != 2*burst {
			t.Error("then:", asked)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one far away that answers is kept busy
		n := &fakeNetwork{delay: 10 * replyWindow,
			servers: map[netip.AddrPort]handler{first: func(q *dns.Msg, _ bool) []byte {
				answer, err := new(dns.Msg).SetRcode(q, dns.RcodeServerFailure).Pack()
				if err != nil {
					t.Error(err)
				}
				return answer
			}}}
		r := n.start(t, func(cfg *Config) { cfg.Attempts = 1 })
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 20 * burst {
			wg.Go(func() { r.Route(t.Context(), fmt.Sprintf("d%d.example", i)) })
		}
		wg.Wait()
		if took := time.Since(began); took > 8*n.delay {
			t.Error(took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: func(*dns.Msg, bool) []byte { return nil }}}
		r := n.start(t, nil)
		for i := range 4 * burst {
			go r.Route(t.Context(), fmt.Sprintf("d%d.example", i))
		}
		synctest.Wait()
	})
}

func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := single("").start(t, func(cfg *Config) { cfg.CacheSize = 64 })
		for i := range 1000 {
			r.Route(t.Context(), fmt.Sprintf("d%d.example", i))
		}
		if s := r.Stats(); s.Routes > 64 || s.Routes < 32 || s.Queries != 1000+1000/(denialsBeforeCheck+1)+1 {
			t.Error(s)
		}
	})
}

// Callers before Run wait for it; callers after it are answered at once.
func TestRunStartsAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := single(examples)
		n.delay = time.Minute // never within a try
		r, err := New(Config{Servers: []netip.AddrPort{first}, Dial: n.dial, ListenPacket: n.listen}, testTable())
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := r.Route(t.Context(), "plain.example").Fact; got != engine.FactDNSTimeout {
				t.Error(got)
			}
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		start := time.Now()
		cancel()
		wg.Wait()
		if got := r.Route(t.Context(), "other.example").Fact; got != engine.FactDNSTimeout || time.Since(start) != 0 {
			t.Error(got, time.Since(start))
		}
		if r.Run(t.Context()) == nil {
			t.Error("a second Run")
		}
	})
}

func TestRunWithoutSockets(t *testing.T) {
	n := single("")
	cause := errors.New("no sockets today")
	r, _ := New(Config{Servers: []netip.AddrPort{first}, Dial: n.dial,
		ListenPacket: func(context.Context, string, string) (net.PacketConn, error) { return nil, cause }}, testTable())
	if err := r.Run(t.Context()); !errors.Is(err, cause) {
		t.Error(err)
	}
	if got := r.Route(t.Context(), "plain.example").Fact; got != engine.FactDNSTimeout {
		t.Error(got)
	}
}

func TestSetTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := single(examples)
		r := n.start(t, nil)
		before := r.Route(t.Context(), "plain.example").Provider
		table := testTable()
		r.SetTable(table)
		if _, ok := r.CachedRoute("plain.example"); ok {
			t.Error("a route of the old table is cached")
		}
		if after := r.Route(t.Context(), "plain.example").Provider; after == before || after != table.Unknown {
			t.Error("the route still names a provider of the old table")
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	n := single("")
	good := Config{Servers: []netip.AddrPort{first, first}, Dial: n.dial, ListenPacket: n.listen}
	if r, err := New(good, testTable()); err != nil || len(r.servers) != 1 {
		t.Error("a server named twice counts once", err)
	}
	for name, spoil := range map[string]func(*Config){
		"no server":    func(c *Config) { c.Servers = nil },
		"zero server":  func(c *Config) { c.Servers = []netip.AddrPort{{}} },
		"no dial":      func(c *Config) { c.Dial = nil },
		"many servers": func(c *Config) { c.Servers = manyServers(9) },
	} {
		bad := good
		spoil(&bad)
		if _, err := New(bad, testTable()); err == nil {
			t.Error(name)
		}
	}
	if _, err := New(good, nil); err == nil {
		t.Error("no table")
	}
}

func manyServers(n int) (out []netip.AddrPort) {
	for i := range n {
		out = append(out, netip.AddrPortFrom(first.Addr(), uint16(1000+i)))
	}
	return out
}
