package fleet

import (
	"context"
	"errors"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// Single implements wire.Prober: it asks the owner of the address. While a narrow route's owner is away it waits for it, and at
// the deadline of ctx the answer is UNKNOWN/timeout. ErrNoProber is returned where no node is there at all.
func (f *Fleet) Single(ctx context.Context, a wire.SingleRequest) (wire.Answer, error) {
	key, narrow := keyOf(a.Route, a.Address)
	a.NoSMTP = a.NoSMTP || f.cfg.SuppressedAddress(a.Address) || f.cfg.Suppressed(a.Address.Domain(), a.Route.Hosts)
	failed := map[*member]bool{}
	var blocked *wire.Answer // of a source that the provider wants no more of: another one may be asked
	for {
		r := f.membership.Load()
		if r.usable.Len() == 0 {
			return f.answerWithoutProber(&a)
		}
		o := r.ownerForSingle(key, narrow, a.Route.Provider, failed, time.Now())
		if o.ready() {
			a.Egress = o.identity
			if narrow {
				a.UsedByOthers = f.usage.usedByOthers(a.Route, o.identity, time.Now())
			}
			if !f.markUsed(o.node, r) {
				continue
			}
			answer, err := o.node.client.Single(ctx, a)
			if err == nil && !narrow && answer.Verdict.Rule == engine.RuleSourceBlocked {
				blocked, failed[o.node] = &answer, true
				continue
			}
			if err == nil || !errors.Is(err, wire.ErrGone) {
				return answer, err
			}
			failed[o.node] = true
			if !narrow {
				continue // to the next best, until none is left
			}
		}
		if blocked != nil {
			return *blocked, nil
		}
		if !narrow && !o.found() {
			return f.answerWithoutProber(&a)
		}
		if !r.waitReplaced(ctx, retryInterval) {
			return f.deadlineAnswer(ctx, &a)
		}
	}
}

// markUsed notes that a node is given something to ask, by a membership. It fails where a later one is in force already, by which the node's
// routes may have another owner at once, as one that was never asked anything.
func (f *Fleet) markUsed(m *member, r *membership) bool {
	if m.used.Load() {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.membership.Load() != r {
		return false
	}
	m.used.Store(true)
	return true
}

// waitReplaced waits until there is a later membership, or a while; false when ctx ends before.
func (r *membership) waitReplaced(ctx context.Context, most time.Duration) bool {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-r.replaced:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// answerWithoutProber answers without a prober what needs none.
func (f *Fleet) answerWithoutProber(a *wire.SingleRequest) (wire.Answer, error) {
	if !a.NoSMTP {
		return wire.Answer{}, ErrNoProber
	}
	ev := engine.Evidence{Address: a.Address, Flags: a.Flags, Route: a.Route}
	return wire.Answer{Verdict: engine.Judge(&ev, engine.Policy{NoSMTP: true, Details: true}, time.Now())}, nil
}

// deadlineAnswer is the answer at the caller's deadline.
func (f *Fleet) deadlineAnswer(ctx context.Context, a *wire.SingleRequest) (wire.Answer, error) {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return wire.Answer{}, ctx.Err()
	}
	v := engine.VerdictFor(engine.ReasonTimeout, "coordinator/owner-away", a.Flags, time.Now())
	v.ProviderID, v.ProviderName, v.MX = a.Route.Provider.ID, a.Route.Provider.Name, a.Route.MX
	return wire.Answer{Verdict: v}, nil
}

// Owner says which identity would ask about an address, and at which node. Empty: there is none.
func (f *Fleet) Owner(route *engine.Route, a engine.Address) (identity, node string) {
	key, narrow := keyOf(route, a)
	o := f.membership.Load().ownerOf(key, narrow, route.Provider, "", time.Now())
	if !o.found() {
		return "", ""
	}
	return o.identity, o.node.name
}
