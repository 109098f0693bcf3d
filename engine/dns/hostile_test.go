package dns

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"probity/engine"
)

// What one hostile zone can cost for one question at most: queries, time, and memory allocated.
const (
	hostileQueries = 24
	hostileTime    = 30 * time.Second
	hostileMemory  = 8 << 20
)

// answered is a reply with what fill adds.
func answered(fill func(m *dns.Msg, tcp bool)) handler {
	return func(q *dns.Msg, tcp bool) []byte {
		m := new(dns.Msg).SetReply(q)
		m.Compress = true
		fill(m, tcp)
		return pack(m)
	}
}

// raw is a reply with bytes corrupted by change.
func raw(change func(b []byte) []byte) handler {
	plain := parseZone(examples).handle
	return func(q *dns.Msg, tcp bool) []byte { return change(plain(q, tcp)) }
}

// TestHostileAnswers: with any name server, a question ends within its bounds, and what is not an answer is never
// reported as "no such domain" or "no mail server".
func TestHostileAnswers(t *testing.T) {
	honest := []engine.Fact{engine.FactMX}
	failure := []engine.Fact{engine.FactServFail, engine.FactDNSTimeout}
	for _, c := range []struct {
		name  string
		serve handler
		want  []engine.Fact
	}{
		{"huge TXT beside the answer", answered(func(m *dns.Msg, tcp bool) {
			m.Answer = []dns.RR{rr("plain.example. 600 MX 10 mx.plain.example.")}
			if !tcp {
				m.Truncated = true
				return
			}
			for range 200 {
				m.Extra = append(m.Extra, rr(`plain.example. 600 TXT "`+strings.Repeat("x", 250)+`"`))
			}
		}), honest},
		{"thousands of MX", answered(func(m *dns.Msg, tcp bool) {
			m.Truncated = !tcp
			if tcp {
				for i := range 2000 {
					m.Answer = append(m.Answer, rr(fmt.Sprintf("plain.example. 600 MX %d mx%d.example.", i, i)))
				}
			}
		}), honest},
		{"truncated for ever", answered(func(m *dns.Msg, _ bool) { m.Truncated = true }), failure},
		{"aliases in a circle", answered(func(m *dns.Msg, _ bool) {
			m.Answer = []dns.RR{rr(m.Question[0].Name + " 600 CNAME a.example."), rr("a.example. 600 CNAME b.example."),
				rr("b.example. 600 CNAME a.example.")}
		}), failure},
		{"an alias of itself", answered(func(m *dns.Msg, _ bool) {
			m.Answer = []dns.RR{rr(m.Question[0].Name + " 600 CNAME " + m.Question[0].Name)}
		}), failure},
		{"another alias at each step", answered(func(m *dns.Msg, _ bool) {
			m.Answer = []dns.RR{rr(m.Question[0].Name + " 600 CNAME x" + m.Question[0].Name)}
		}), failure},
		{"names that are none", answered(func(m *dns.Msg, _ bool) {
			for _, host := range []string{`a\000b.example.`, `a\010b.example.`, `a\.b.example.`, `-.example.`,
				`\042.example.`} {
				m.Answer = append(m.Answer, rr("plain.example. 600 MX 10 "+host))
			}
		}), []engine.Fact{engine.FactServFail, engine.FactUnroutable, engine.FactMX}},
		{"counts that lie", raw(func(b []byte) []byte { binary.BigEndian.PutUint16(b[6:], 65535); return b }), failure},
		{"a name that points at itself", raw(func(b []byte) []byte {
			return append(b[:len(b):len(b)], 0xc0,
				byte(len(b)))
		}), append(failure, honest...)},
		{"cut in the middle", raw(func(b []byte) []byte { return b[:len(b)-3] }), failure},
		{"no bytes", func(*dns.Msg, bool) []byte { return []byte{} }, failure},
		{"the query itself", func(q *dns.Msg, _ bool) []byte { return pack(q) }, failure},
		{"64 KiB of nothing", raw(func(b []byte) []byte { return append(b, make([]byte, 60<<10)...) }),
			append(failure, honest...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNetwork{servers: map[netip.AddrPort]handler{first: c.serve, second: c.serve}}
				r := n.start(t, nil)
				var before, now runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				route := r.Route(t.Context(), "plain.example")
				took := time.Since(began)
				runtime.ReadMemStats(&now)
				asked := strings.Count(n.log(), ",") + 1
				if !oneOf(route.Fact, c.want) {
					t.Errorf("told %v, want one of %v", route.Fact, c.want)
				}
				if len(route.Hosts) > maxMX {
					t.Errorf("%d hosts", len(route.Hosts))
				}
				if took > hostileTime || asked > hostileQueries || now.TotalAlloc-before.TotalAlloc > hostileMemory {
					t.Errorf("%s, %d queries, %d bytes", took, asked, now.TotalAlloc-before.TotalAlloc)
				}
			})
		})
	}
}

func oneOf(f engine.Fact, all []engine.Fact) bool {
	for _, one := range all {
		if f == one {
			return true
		}
	}
	return false
}
