package app

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"

	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/internal/nodeflags"
	"probity/prober/wire"
)

// serveMX runs a name server on loopback until the test ends, for which every domain has one MX host.
func serveMX(t *testing.T, host string) netip.AddrPort {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	listens, ended := make(chan struct{}), make(chan error, 1)
	server := &dns.Server{PacketConn: packets, NotifyStartedFunc: func() { close(listens) },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			reply := new(dns.Msg).SetReply(q)
			reply.Answer = []dns.RR{&dns.MX{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeMX,
				Class: dns.ClassINET, Ttl: 300}, Preference: 10, Mx: host + "."}}
			_ = w.WriteMsg(reply)
		})}
	go func() { ended <- server.ActivateAndServe() }()
	<-listens
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-ended)
	})
	return packets.LocalAddr().(*net.UDPAddr).AddrPort()
}

// TestCoordinatorWithoutProbersAsksNowhere: it says so of a domain, of a domain whose addresses are spread, and of an
// address.
func TestCoordinatorWithoutProbersAsksNowhere(t *testing.T) {
	flags := nodeflags.Probing{DNS: []nodeflags.ResolverAddr{{AddrPort: serveMX(t, "gmail-smtp-in.l.google.com")}}}
	resolver, err := flags.Resolver(engine.DefaultTable())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- resolver.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	probers, err := fleet.New(fleet.Config{Cluster: new(cluster.Cluster), Coordinator: wire.Coordinator{ID: "hub"},
		Table: engine.DefaultTable, Dial: dialStream,
		Credentials: func(string) credentials.TransportCredentials { return nil }})
	require.NoError(t, err)
	n := Node{Resolver: resolver, fleet: &remoteProbers{Fleet: probers}}
	for _, of := range []string{"shop.example", "gmail.com", "ann@gmail.com"} {
		route, err := n.explainRoute(ctx, of, "")
		require.NoError(t, err)
		require.Equal(t, "Google", route.Provider)
		require.False(t, route.Asked, of)
		require.Equal(t, "no prober is connected", route.WhyNot)
		require.Empty(t, route.Owner)
	}
}
