package measured

import (
	"context"
	"net"
	"net/netip"

	"probity/engine"
	"probity/engine/dns"
)

// Resolve is a bench.Resolve: the resolver of every command, with one server. It does not choose the names and does not
// use the answers.
func Resolve(ctx context.Context, server netip.AddrPort, use func(settle func(context.Context, string) string)) error {
	var dialer net.Dialer
	var listen net.ListenConfig
	r, err := dns.New(dns.Config{Servers: []netip.AddrPort{server}, Dial: dialer.DialContext,
		ListenPacket: listen.ListenPacket}, engine.DefaultTable())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	use(func(ctx context.Context, domain string) string { return r.Route(ctx, domain).Fact.String() })
	stop()
	return <-ended
}
