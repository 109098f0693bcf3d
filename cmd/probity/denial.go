package main

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// denier is a resolver client, as far as it tells which of its servers it does not believe.
type denier interface {
	Denying() []netip.AddrPort
}

// How often it is looked whether a server denies everything, and how often that is said.
const (
	denialLook  = 5 * time.Second
	denialAgain = time.Minute
)

// warnOfDenial says in the log that servers deny the root, at most once a minute, and once that none does any more, until ctx
// ends. Nothing that such a server denies is believed, so lists wait, and a job alone does not say what for.
func warnOfDenial(ctx context.Context, r denier, log *slog.Logger) {
	tick := time.NewTicker(denialLook)
	defer tick.Stop()
	var said time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			servers := r.Denying()
			switch {
			case len(servers) == 0 && !said.IsZero():
				log.Info("no resolver denies the root any more")
				said = time.Time{}
			case len(servers) > 0 && now.Sub(said) >= denialAgain:
				log.Warn("a resolver is not believed: it denies the root, and so every name; domains are asked for again, then end as dns_error. Give it a way out, or name another with --dns; probity doctor says more",
					"resolvers", servers)
				said = now
			}
		}
	}
}
