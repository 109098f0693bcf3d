package doctor

import (
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// FuzzRead: what is taken from any reply belongs to the question, and a failure of a server is no absence.
func FuzzRead(f *testing.F) {
	m := new(dns.Msg).SetQuestion("sender.org.", dns.TypeTXT)
	rr, err := dns.NewRR(`sender.org. 300 IN TXT "v=spf1 -all" "more"`)
	require.NoError(f, err)
	m.Answer = []dns.RR{rr}
	packed, err := m.Pack()
	require.NoError(f, err)
	f.Add(packed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m dns.Msg
		if m.Unpack(b) != nil {
			return
		}
		q := query{name: "sender.org.", typ: dns.TypeTXT}
		a := parseReply(&m, q)
		for _, rr := range a.records {
			require.Equal(t, q.typ, rr.Header().Rrtype)
		}
		if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
			require.NotContains(t, []outcome{found, noData, noDomain}, a.outcome)
		}
	})
}
