package main

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// resolverHealth is a resolver client, as far as it tells which of its servers it does not trust.
type resolverHealth interface {
	UntrustedServers() []netip.AddrPort
}

// How often it is looked whether a server denies everything, and how often that is said.
const (
	resolverCheckEvery = 5 * time.Second
	resolverLogEvery   = time.Minute
)

// logResolverHealth says in the log that servers deny the root, at most once a minute, and once that none does any more, until ctx
// ends. Nothing that such a server denies is trusted, so jobs wait, and a job alone does not say what for.
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
				log.Info("no resolver denies the root any more")
				said = time.Time{}
			case len(servers) > 0 && now.Sub(said) >= resolverLogEvery:
				log.Warn("a resolver is not believed: it denies the root, and so every name; domains are asked for again, then end as dns_error. Give it a way out, or name another with --dns; probity doctor says more",
					"resolvers", servers)
				said = now
			}
		}
	}
}
