package bench

import (
	"context"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/bench/baseline"
	"probity/bench/report"
)

func exchange(t *testing.T, s *nameServer, name string, kind uint16) *dns.Msg {
	answer, _, err := new(dns.Client).ExchangeContext(t.Context(), new(dns.Msg).SetQuestion(name, kind),
		s.addr().String())
	require.NoError(t, err)
	return answer
}

func TestNameServerAnswersAsItsNamesSay(t *testing.T) {
	s, err := startNameServer(10)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()

	gone := exchange(t, s, "d0000004"+namesZone+".", dns.TypeMX)
	require.Equal(t, dns.RcodeNameError, gone.Rcode)
	require.Equal(t, uint32(negativeTTL), gone.Ns[0].(*dns.SOA).Minttl)

	null := exchange(t, s, "n0000005"+namesZone+".", dns.TypeMX)
	require.Equal(t, dns.RcodeSuccess, null.Rcode)
	require.Equal(t, ".", null.Answer[0].(*dns.MX).Mx)
	require.Zero(t, null.Answer[0].(*dns.MX).Preference)

	require.Equal(t, dns.RcodeSuccess, exchange(t, s, "n0000005"+namesZone+".", dns.TypeA).Rcode)
	require.Equal(t, dns.RcodeNameError, exchange(t, s, "www.example.", dns.TypeMX).Rcode)
	require.Equal(t, dns.RcodeSuccess, exchange(t, s, ".", dns.TypeMX).Rcode,
		"who denies the root is believed in nothing")
	exchange(t, s, "d0000004"+namesZone+".", dns.TypeMX)

	asked, repeated, others := s.counts()
	require.Equal(t, [3]int64{2, 1, 3}, [3]int64{asked, repeated, others})
	s.reset()
	asked, repeated, others = s.counts()
	require.Zero(t, asked+repeated+others)
}

func TestDNSBaselineAsksEachNameOnce(t *testing.T) {
	s, err := startNameServer(3000)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	count, err := baseline.AskNames(t.Context(), baseline.DialContext, s.addr(), 3000, nameOf)
	require.NoError(t, err)
	require.Equal(t, 3000, count.Recipients)
	asked, repeated, others := s.counts()
	require.Equal(t, [3]int64{3000, 0, 0}, [3]int64{asked, repeated, others})
}

// plainResolver is a Resolve that queries the server and returns its answer.
func plainResolver(_ context.Context, server netip.AddrPort, use func(func(context.Context, string) string)) error {
	use(func(ctx context.Context, domain string) string {
		m, _, err := new(dns.Client).ExchangeContext(ctx, new(dns.Msg).SetQuestion(domain+".", dns.TypeMX),
			server.String())
		switch {
		case err != nil:
			return err.Error()
		case m.Rcode == dns.RcodeNameError:
			return ResolvedNoName
		}
		return ResolvedNullMX
	})
	return nil
}

// wrongResolver queries no server, and every other result is wrong.
func wrongResolver(_ context.Context, _ netip.AddrPort, use func(func(context.Context, string) string)) error {
	use(func(context.Context, string) string { return ResolvedNullMX })
	return nil
}

func TestResolverIsCheckedAgainstTheNames(t *testing.T) {
	for name, test := range map[string]struct {
		resolve                         Resolve
		resolved, asked                 int
		allAsked, askedOnce, allCorrect bool // the bars
	}{
		"one that asks": {plainResolver, 1000, 1000, true, true, true},
		"one that lies": {wrongResolver, 500, 0, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := startNameServer(1000)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.close()) }()
			tr := &Trial{Options: Options{Dial: baseline.DialContext, Resolve: test.resolve},
				Report: report.New("dns", "", 1, report.Machine{}), rows: 1000}
			bare, err := measureResolver(t.Context(), tr, s)
			require.NoError(t, err)
			require.Equal(t, dnsRounds*1000, bare.Recipients)
			for metric, want := range map[string]int{"domains_asked": test.asked, "not_settled": 1000 - test.resolved,
				"asked_again": 0, "other_questions": 0} {
				require.InDelta(t, dnsRounds*want, tr.Metrics["resolver_"+metric].Value, 0, metric)
			}
			met := map[string]bool{}
			for _, b := range tr.Bars {
				met[b.Name] = b.OK
			}
			require.Contains(t, met, "resolver_ratio_to_floor")
			delete(met, "resolver_ratio_to_floor")
			require.Equal(t, map[string]bool{"resolver_domains_asked": test.allAsked,
				"resolver_asked_again_needlessly": test.askedOnce,
				"resolver_not_settled":            test.allCorrect}, met)
		})
	}
}

func TestNamesAndTheirIndex(t *testing.T) {
	for i := range 50 {
		require.Equal(t, i, indexOf(nameOf(i)[:1+nameWidth]))
	}
	for _, label := range []string{"", "d", "x0000001", "d00000001", "d-000001", "www"} {
		require.Equal(t, -1, indexOf(label), label)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{nameOf(1), "www.example"} {
		query, err := new(dns.Msg).SetQuestion(name+".", dns.TypeMX).Pack()
		require.NoError(f, err)
		f.Add(query)
	}
	s := &nameServer{names: 10}
	f.Fuzz(func(t *testing.T, query []byte) {
		s.asked = nil
		if name, _, ok := readQuestion(query); ok && indexOf(name) >= 0 && indexOf(name) < s.names {
			return // counting is tested elsewhere
		}
		out := s.answer(nil, query)
		if len(out) > 0 && len(out) < headerLength {
			t.Fatalf("an answer of %d bytes", len(out))
		}
	})
}
