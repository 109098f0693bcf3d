package coordinator

import (
	"context"
	"errors"

	"probity/engine"
	"probity/prober/wire"
)

// Domain is what is known of a domain without asking a mail server.
type Domain struct {
	Name     string // lower-case A-labels
	Route    engine.Route
	CatchAll engine.Tri   // as an earlier check of the domain found
	Flags    engine.Flags // of the lists
}

// unlikelyLocal is the local part with which a domain is asked about: an address needs one, and no mailbox has this
// one.
const unlikelyLocal = "probity-domain-facts"

// Domain returns what DNS, lists and the probers' caches say about a domain. It opens no SMTP connection.
func (c *Coordinator) Domain(ctx context.Context, name string) (d Domain, err error) {
	addr, err := engine.Parse(unlikelyLocal + "@" + name)
	if err != nil {
		return d, err
	}
	d.Name, d.Flags = addr.Domain(), (*c.lists.Load()).Flags(addr)
	for range tableTries {
		d.Route = c.cfg.Resolver.Route(ctx, d.Name)
		ev := engine.Evidence{Address: addr, Flags: d.Flags, Route: &d.Route}
		policy := engine.Policy{Schedule: c.table.Load().Schedule}
		if engine.Next(&ev, policy).Kind != engine.StepAsk {
			return d, nil // no domain, no host, or a provider that is not asked
		}
		answer, err := c.cfg.Prober.Single(ctx, wire.SingleRequest{
			Address: addr, Flags: d.Flags, Route: &d.Route, NoSMTP: true, Low: true,
		})
		if errors.Is(err, wire.ErrOtherTable) {
			continue
		}
		d.CatchAll = answer.Verdict.Details.CatchAll
		return d, err
	}
	return d, wire.ErrOtherTable
}
