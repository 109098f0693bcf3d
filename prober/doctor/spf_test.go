package doctor

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"blitiri.com.ar/go/spf"
	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"probity/engine"
)

// evaluate runs check_host for probe@sender.org from 25.0.0.1 against a record and further zone lines.
func evaluate(t *testing.T, record string, lines ...string) (spf.Result, error) {
	w := newFakeInternet(t)
	w.set(fmt.Sprintf("sender.org. TXT %q", record))
	for _, line := range lines {
		w.add(line)
	}
	addr, err := engine.Parse("strong-bad@sender.org")
	require.NoError(t, err)
	cfg, err := w.cfg.withDefaults()
	require.NoError(t, err)
	a := &audit{questions: newQuestions(&cfg)}
	return a.evaluateSPF(t.Context(), netip.MustParseAddr("25.0.0.1"), addr, "mx.sender.org")
}

// spfCase is a record, what else the zone holds, and what comes of it.
type spfCase struct {
	record string
	zone   []string
	want   spf.Result
}

// spfCases are records for 25.0.0.1; ten and eleven are terms that cause so many lookups, crowd is a domain with 11 MX
// hosts.
func spfCases(ten string, tenZone []string, eleven string, elevenZone, crowd []string) []spfCase {
	return []spfCase{
		{"v=spf1 ip4:25.0.0.0/24 -all", nil, spf.Pass},
		{"v=spf1 IP4:25.0.0.1 -ALL", nil, spf.Pass},
		{"v=spf1 ip4:25.0.1.0/24 -all", nil, spf.Fail},
		{"v=spf1 ip6:2a00::/16 ~all", nil, spf.SoftFail},
		{"v=spf1 ?all", nil, spf.Neutral},
		{"v=spf1", nil, spf.Neutral},
		{"v=spf10 -all", nil, spf.None},
		{"v=spf1 a:mx.sender.org -all", nil, spf.Pass},
		{"v=spf1 a:host.org/24 -all", []string{"host.org. A 25.0.0.77"}, spf.Pass},
		{"v=spf1 a:host.org/24//64 -all", []string{"host.org. A 25.0.0.77"}, spf.Pass},
		{"v=spf1 mx/24 -all", nil, spf.Pass},
		{"v=spf1 mx -all", nil, spf.Fail},
		{"v=spf1 mx:crowd.org -all", crowd, spf.PermError},
		{"v=spf1 ptr -all", nil, spf.Pass},
		{"v=spf1 ptr:other.org -all", nil, spf.Fail},
		{"v=spf1 exists:%{ir}.%{v}.ok.org -all", []string{"1.0.0.25.in-addr.ok.org. A 127.0.0.2"}, spf.Pass},
		{"v=spf1 exists:%{l1r-}.%{d2}.ok.org -all", []string{"strong.sender.org.ok.org. A 127.0.0.2"}, spf.Pass},
		{"v=spf1 exists:%{h}.ok.org -all", []string{"mx.sender.org.ok.org. A 127.0.0.2"}, spf.Pass},
		{"v=spf1 include:other.org -all", []string{`other.org. TXT "v=spf1 ip4:25.0.0.1 -all"`}, spf.Pass},
		{"v=spf1 include:other.org ~all", []string{`other.org. TXT "v=spf1 -all"`}, spf.SoftFail},
		{"v=spf1 include:other.org -all", []string{`other.org. TXT "unrelated"`}, spf.PermError},
		{"v=spf1 redirect=other.org", []string{`other.org. TXT "v=spf1 ip4:25.0.0.1 -all"`}, spf.Pass},
		{"v=spf1 redirect=other.org", []string{`other.org. TXT "v=spf1 -all"`}, spf.Fail},
		{"v=spf1 redirect=nowhere.org", nil, spf.PermError},
		{"v=spf1 redirect=other.org ip4:25.0.0.1", nil, spf.Pass},
		{"v=spf1 unknown=thing exp=why.org ip4:25.0.0.1", nil, spf.Pass},
		{"v=spf1 include:sender.org -all", nil, spf.PermError}, // a loop ends at the tenth term
		{"v=spf1" + ten + " ip4:25.0.0.1", tenZone, spf.Pass},
		{"v=spf1" + eleven + " ip4:25.0.0.1", elevenZone, spf.PermError},
		{"v=spf1 a:no1.org a:no2.org ip4:25.0.0.1", nil, spf.Pass},
		{"v=spf1 a:no1.org a:no2.org a:no3.org ip4:25.0.0.1", nil, spf.PermError},
		{"v=spf1 ip4:25.0.0.300 ip4:25.0.0.1", nil, spf.PermError},
		{"v=spf1 ip4:25.0.0.0/33 -all", nil, spf.PermError},
		{"v=spf1 ipv4:25.0.0.1 -all", nil, spf.PermError},
		{"v=spf1 include -all", nil, spf.PermError},
		{"v=spf1 all:x.org", nil, spf.PermError},
		{"v=spf1 exists:%{q}.org -all", nil, spf.PermError},
		{"v=spf1 exists:%{t}.org -all", nil, spf.PermError},
		{"v=spf1 exists:%x.org -all", nil, spf.PermError},
		{"v=spf1 redirect=a.org redirect=b.org", nil, spf.PermError},
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
		got, reason := evaluate(t, c.record, c.zone...)
		assert.Equal(t, c.want, got, "%s: %v", c.record, reason)
	}
}

func TestSPFWithoutAnAnswerIsNoVerdict(t *testing.T) {
	w := newFakeInternet(t)
	w.rcode["sender.org."] = dns.RcodeServerFailure
	require.True(t, has(w.audit(), "spf", Unknown, "SERVFAIL", "name servers"))
}
