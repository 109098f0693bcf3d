package bench

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

func exchange(t *testing.T, s *nameServer, name string, kind uint16) *dns.Msg {
	answer, _, err := new(dns.Client).ExchangeContext(t.Context(), new(dns.Msg).SetQuestion(name, kind), s.addr().String())
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
	require.Equal(t, dns.RcodeSuccess, exchange(t, s, ".", dns.TypeMX).Rcode, "who denies the root is believed in nothing")
	exchange(t, s, "d0000004"+namesZone+".", dns.TypeMX)

	asked, again, others := s.tally()
	require.Equal(t, [3]int64{2, 1, 3}, [3]int64{asked, again, others})
	s.reset()
	asked, again, others = s.tally()
	require.Zero(t, asked+again+others)
}

func TestFloorAsksEachNameOnce(t *testing.T) {
	s, err := startNameServer(3000)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	count, err := dnsFloor(t.Context(), FloorDial, s.addr(), 3000)
	require.NoError(t, err)
	require.Equal(t, 3000, count.Recipients)
	asked, again, others := s.tally()
	require.Equal(t, [3]int64{3000, 0, 0}, [3]int64{asked, again, others})
}

// What a resolver says is held against what the names are: every other one is told wrongly here, and none is asked.
func TestResolverIsHeldAgainstTheNames(t *testing.T) {
	s, err := startNameServer(1000)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	tr := &Trial{Report: newReport("dns", "", 1, Machine{}), rows: 1000}
	var mu sync.Mutex
	seen := map[string]bool{}
	tr.Resolve = func(_ context.Context, server netip.AddrPort, use func(func(context.Context, string) string)) error {
		require.Equal(t, s.addr(), server)
		use(func(_ context.Context, domain string) string {
			mu.Lock()
			defer mu.Unlock()
			seen[domain] = true
			return SettledNullMX
		})
		return nil
	}
	require.NoError(t, tr.resolve(t.Context(), s, floorCount{Recipients: 1000, Elapsed: time.Millisecond}))
	require.Len(t, seen, 1000)
	require.InDelta(t, 500, tr.Metrics["resolver_not_settled"].Value, 0)
	require.InDelta(t, 0, tr.Metrics["resolver_domains_asked"].Value, 0)
	require.Positive(t, tr.Metrics["resolver_ratio_to_floor"].Value)
	for _, b := range tr.Bars {
		if b.Name != "resolver_ratio_to_floor" {
			require.False(t, b.OK, b.Name)
		}
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
	f.Add(appendQuestion(nil, 7, nameOf(1)))
	f.Add(appendQuestion(nil, 7, "www.example"))
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
