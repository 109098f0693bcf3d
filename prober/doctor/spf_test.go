package doctor

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/engine"
)

// evaluate runs check_host for probe@sender.org from 25.0.0.1 against a record and further zone lines.
func evaluate(t *testing.T, record string, lines ...string) spfResult {
	w := newWorld(t)
	w.set(fmt.Sprintf("sender.org. TXT %q", record))
	for _, line := range lines {
		w.add(line)
	}
	addr, err := engine.Parse("strong-bad@sender.org")
	require.NoError(t, err)
	cfg, err := w.cfg.ready()
	require.NoError(t, err)
	a := &audit{Config: &cfg, memo: map[query]*asked{}}
	return a.spf(t.Context(), netip.MustParseAddr("25.0.0.1"), addr, "mx.sender.org")
}

// spfCase is a record, what else the zone holds, and what comes of it.
type spfCase struct {
	record string
	zone   []string
	want   spfVerdict
}

// spfCases are records for 25.0.0.1; ten and eleven are terms that cause so many lookups, crowd is a domain with 11 MX hosts.
func spfCases(ten string, tenZone []string, eleven string, elevenZone, crowd []string) []spfCase {
	return []spfCase{
		{"v=spf1 ip4:25.0.0.0/24 -all", nil, spfPass},
		{"v=spf1 IP4:25.0.0.1 -ALL", nil, spfPass},
		{"v=spf1 ip4:25.0.1.0/24 -all", nil, spfFail},
		{"v=spf1 ip6:2a00::/16 ~all", nil, spfSoftFail},
		{"v=spf1 ?all", nil, spfNeutral},
		{"v=spf1", nil, spfNeutral},
		{"v=spf10 -all", nil, spfNone},
		{"v=spf1 a:mx.sender.org -all", nil, spfPass},
		{"v=spf1 a:host.org/24 -all", []string{"host.org. A 25.0.0.77"}, spfPass},
		{"v=spf1 a:host.org/24//64 -all", []string{"host.org. A 25.0.0.77"}, spfPass},
		{"v=spf1 mx/24 -all", nil, spfPass},
		{"v=spf1 mx -all", nil, spfFail},
		{"v=spf1 mx:crowd.org -all", crowd, spfPermError},
		{"v=spf1 ptr -all", nil, spfPass},
		{"v=spf1 ptr:other.org -all", nil, spfFail},
		{"v=spf1 exists:%{ir}.%{v}.ok.org -all", []string{"1.0.0.25.in-addr.ok.org. A 127.0.0.2"}, spfPass},
		{"v=spf1 exists:%{l1r-}.%{d2}.ok.org -all", []string{"strong.sender.org.ok.org. A 127.0.0.2"}, spfPass},
		{"v=spf1 exists:%{h}.%{p}.ok.org -all", []string{"mx.sender.org.mx.sender.org.ok.org. A 127.0.0.2"}, spfPass},
		{"v=spf1 include:other.org -all", []string{`other.org. TXT "v=spf1 ip4:25.0.0.1 -all"`}, spfPass},
		{"v=spf1 include:other.org ~all", []string{`other.org. TXT "v=spf1 -all"`}, spfSoftFail},
		{"v=spf1 include:other.org -all", []string{`other.org. TXT "unrelated"`}, spfPermError},
		{"v=spf1 redirect=other.org", []string{`other.org. TXT "v=spf1 ip4:25.0.0.1 -all"`}, spfPass},
		{"v=spf1 redirect=other.org", []string{`other.org. TXT "v=spf1 -all"`}, spfFail},
		{"v=spf1 redirect=nowhere.org", nil, spfPermError},
		{"v=spf1 redirect=other.org ip4:25.0.0.1", nil, spfPass},
		{"v=spf1 unknown=thing exp=why.org ip4:25.0.0.1", nil, spfPass},
		{"v=spf1 include:sender.org -all", nil, spfPermError}, // a loop ends at the tenth term
		{"v=spf1" + ten + " ip4:25.0.0.1", tenZone, spfPass},
		{"v=spf1" + eleven + " ip4:25.0.0.1", elevenZone, spfPermError},
		{"v=spf1 a:no1.org a:no2.org ip4:25.0.0.1", nil, spfPass},
		{"v=spf1 a:no1.org a:no2.org a:no3.org ip4:25.0.0.1", nil, spfPermError},
		{"v=spf1 ip4:25.0.0.1 ip4:25.0.0.300", nil, spfPermError}, // an error behind a match spoils the record too
		{"v=spf1 ip4:25.0.0.0/33 -all", nil, spfPermError},
		{"v=spf1 ip4:25.0.0.0/024 -all", nil, spfPermError},
		{"v=spf1 ip4:2a00::1 -all", nil, spfPermError},
		{"v=spf1 ipv4:25.0.0.1 -all", nil, spfPermError},
		{"v=spf1 include -all", nil, spfPermError},
		{"v=spf1 all:x.org", nil, spfPermError},
		{"v=spf1 exists:%{q}.org -all", nil, spfPermError},
		{"v=spf1 exists:%{t}.org -all", nil, spfPermError},
		{"v=spf1 exists:%x.org -all", nil, spfPermError},
		{"v=spf1 redirect=a.org redirect=b.org", nil, spfPermError},
	}
}

func TestSPF(t *testing.T) {
	many := func(n int) (terms string, zone []string) {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " include:s%d.org", i)
			zone = append(zone, fmt.Sprintf(`s%d.org. TXT "v=spf1 ip4:9.9.9.9 -all"`, i))
		}
		return b.String(), zone
	}
	ten, tenZone := many(10)
	eleven, elevenZone := many(11)
	var crowd []string
	for i := range 11 {
		crowd = append(crowd, fmt.Sprintf("crowd.org. MX %d m%d.crowd.org.", i, i))
	}
	for _, c := range spfCases(ten, tenZone, eleven, elevenZone, crowd) {
		got := evaluate(t, c.record, c.zone...)
		require.Equal(t, c.want, got.verdict, "%s: %s", c.record, got.why)
	}
}

func TestSPFWithoutAnAnswerIsNoVerdict(t *testing.T) {
	w := newWorld(t)
	w.rcode["sender.org."] = dns.RcodeServerFailure
	require.True(t, has(w.audit(), "spf", Unknown, "SERVFAIL", "name servers"))
}

func TestMacroOfIPv6(t *testing.T) {
	c := &spfCheck{audit: &audit{}, ip: netip.MustParseAddr("2a00::1")}
	name, err := c.expand(t.Context(), "%{i3}.%{v}.%{D}.%%%_%-x.org", "sender.org")
	require.Nil(t, err)
	require.Equal(t, "0.0.1.ip6.sender.org.% %20x.org", name)
}

func TestLongNamesLoseLabelsFromTheLeft(t *testing.T) {
	c := &spfCheck{audit: &audit{}}
	name, err := c.expand(t.Context(), strings.Repeat("label.", 50)+"end.org", "")
	require.Nil(t, err)
	require.LessOrEqual(t, len(name), 253)
	require.True(t, strings.HasSuffix(name, ".label.end.org"))
}

// FuzzSPF holds that no record panics, and that expansion stays within a name's length.
func FuzzSPF(f *testing.F) {
	for _, seed := range []string{"v=spf1 a:%{d2r.-}/24//64 -all", "v=spf1 exists:%{ir}.x.org redirect=%{o}", "v=spf1 ip6:::1/0 ?ptr:a.b mx//0", "v=spf1 %"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, record string) {
		r, err := parseSPF(record)
		if err != nil {
			return
		}
		c := &spfCheck{audit: &audit{Config: &Config{}, memo: map[query]*asked{}}, ip: netip.MustParseAddr("25.0.0.1"), ehlo: "mx.sender.org"}
		for _, m := range r.mechanisms {
			name, err := c.expand(t.Context(), m.domain, "sender.org")
			if err == nil && len(name) > 253 {
				t.Fatalf("%q: a name of %d bytes", m.domain, len(name))
			}
			if m.domain != "" && err != nil && strings.Contains(err.why, "bad macro") {
				t.Fatalf("%q was accepted, then not expanded", m.domain)
			}
		}
	})
}
