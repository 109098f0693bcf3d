package measured

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	"probity/bench"
)

// The resolver that bench measures distinguishes a null MX from a missing name, queries each once, and ends with use.
func TestResolverGivesCorrectOutcomes(t *testing.T) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	var mu sync.Mutex
	asked := map[string]int{}
	listening := make(chan struct{})
	s := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(listening) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			mu.Lock()
			asked[q.Question[0].Name]++
			mu.Unlock()
			m := new(dns.Msg).SetReply(q)
			switch q.Question[0].Name {
			case "null.example.":
				m.Answer = []dns.RR{&dns.MX{Hdr: dns.RR_Header{Name: "null.example.", Rrtype: dns.TypeMX,
					Class: dns.ClassINET, Ttl: 300}, Mx: "."}}
			case "gone.example.":
				m.Rcode = dns.RcodeNameError
			}
			_ = w.WriteMsg(m) // a lost answer fails the test
		})}
	served := make(chan error, 1)
	go func() { served <- s.ActivateAndServe() }()
	<-listening
	got := map[string]string{}
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	require.NoError(t, Resolve(t.Context(), addr, func(settle func(context.Context, string) string) {
		for _, domain := range []string{"null.example", "gone.example", "null.example"} {
			got[domain] = settle(t.Context(), domain)
		}
	}))
	require.NoError(t, s.Shutdown())
	require.NoError(t, <-served)
	require.Equal(t, map[string]string{"null.example": bench.ResolvedNullMX, "gone.example": bench.ResolvedNoName}, got)
	require.Equal(t, 1, asked["null.example."])
	require.Equal(t, 1, asked["gone.example."])
}
