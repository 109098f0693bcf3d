package app

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// resolverHealth is a resolver that reports which of its servers it does not trust.
type resolverHealth interface {
	UntrustedServers() []netip.AddrPort
}

// How often the servers are checked, and how often a problem is logged.
const (
	resolverCheckEvery = 5 * time.Second
	resolverLogEvery   = time.Minute
)

// logResolverHealth logs servers that deny the root, at most once a minute, and once that none does any more, until ctx ends. No
// denial of such a server is trusted, so jobs wait, and a job does not show the reason.
func logResolverHealth(ctx context.Context, r resolverHealth, log *slog.Logger) {
	tick := time.NewTicker(resolverCheckEvery)
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			servers := r.UntrustedServers()
			switch {
			case len(servers) == 0 && !said.IsZero():
				log.Info("resolvers trusted again: none answers NXDOMAIN for the root")
				said = time.Time{}
			case len(servers) > 0 && now.Sub(said) >= resolverLogEvery:
				log.Warn("resolver not trusted: it answers NXDOMAIN for the root; domains are asked for again, then end as dns_error. Give it a way out, or name another with --dns; probity doctor says more",
					"resolvers", servers)
				said = now
			}
		}
	}
}
