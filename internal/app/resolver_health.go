package app

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// resolverHealth is a resolver that reports which of its servers it does not trust, and which do not answer.
type resolverHealth interface {
	UntrustedServers() []netip.AddrPort
	SilentServers(context.Context) []netip.AddrPort
}

// How often the servers are checked, and how often a problem is logged at most.
const (
	resolverCheckEvery = 5 * time.Second
	resolverLogEvery   = time.Minute
)

// logResolverHealth logs servers that deny the root, again each minute, and servers that do not answer, once an outage,
// and when neither is so any more, until ctx ends. Jobs wait for such a server, then end with rows that say dns_error,
// and nothing in them says why.
func logResolverHealth(ctx context.Context, r resolverHealth, log *slog.Logger) {
	denying := resolverProblem{
		log:     log,
		repeats: true,
		warning: "resolver not trusted: it answers NXDOMAIN for the root; domains are asked for again, then end as dns_error. Give it a way out, or name another with --dns; probity doctor says more",
		over:    "resolvers trusted again: none answers NXDOMAIN for the root",
	}
	silent := resolverProblem{
		log:     log,
		warning: "resolver does not answer: domains are asked for again, then end as dns_error. Check the network, or name another with --dns; probity doctor says more",
		over:    "resolvers answer again",
	}
	tick := time.NewTicker(resolverCheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			denying.report(r.UntrustedServers(), now)
			silent.report(r.SilentServers(ctx), now)
		}
	}
}

// resolverProblem is a problem that some servers have, or none, and what was logged of it.
type resolverProblem struct {
	log           *slog.Logger
	warning, over string
	repeats       bool // while it lasts
	warned        bool // and it is not over
	said          time.Time
}

// report logs the servers that have the problem now, at most once a minute, and its end.
func (p *resolverProblem) report(servers []netip.AddrPort, now time.Time) {
	switch {
	case len(servers) == 0 && p.warned:
		p.log.Info(p.over)
		p.warned = false
	case len(servers) > 0 && (p.repeats || !p.warned) && now.Sub(p.said) >= resolverLogEvery:
		p.log.Warn(p.warning, "resolvers", servers)
		p.warned, p.said = true, now
	}
}
