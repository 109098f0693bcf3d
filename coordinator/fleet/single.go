package fleet

import (
	"context"
	"errors"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// Single implements wire.Prober: it sends the call to the owner of the address. If a narrow route's owner is absent it
// waits, and at the deadline of ctx the answer is UNKNOWN/timeout. It returns ErrNoProber if no node is usable.
func (f *Fleet) Single(ctx context.Context, a wire.SingleRequest) (wire.Answer, error) {
	key, narrow := keyOf(a.Route, a.Address)
	a.NoSMTP = a.NoSMTP || f.cfg.SuppressedAddress(a.Address) || f.cfg.Suppressed(a.Address.Domain(), a.Route.Hosts)
	failed := map[*member]bool{}
	var blocked *wire.Answer // of a source that is blocked at the provider: another one may be tried
	for {
		r := f.membership.Load()
		if r.usable.Len() == 0 {
			return answerWithoutProber(&a)
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
			return answerWithoutProber(&a)
		}
		later := time.NewTimer(retryInterval)
		select {
		case <-r.replaced:
		case <-later.C:
		case <-ctx.Done():
		}
		later.Stop()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return wire.Answer{Verdict: verdictFor(engine.ReasonTimeout, "coordinator/owner-away", a.Flags, a.Route,
				time.Now())}, nil
		} else if ctx.Err() != nil {
			return wire.Answer{}, ctx.Err()
		}
	}
}

// markUsed marks a node as used, under a membership. It returns false if a later membership is current: because the
// node was unused, that one may have given its routes to another owner without a wait.
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

// answerWithoutProber answers a call that needs no SMTP; others get ErrNoProber.
func answerWithoutProber(a *wire.SingleRequest) (wire.Answer, error) {
	if !a.NoSMTP {
		return wire.Answer{}, ErrNoProber
	}
	ev := engine.Evidence{Address: a.Address, Flags: a.Flags, Route: a.Route}
	return wire.Answer{Verdict: engine.Judge(&ev, engine.Policy{NoSMTP: true, Details: true}, time.Now())}, nil
}

// Owner says which identity would probe an address, and at which node. Empty: there is none.
func (f *Fleet) Owner(route *engine.Route, a engine.Address) (identity, node string) {
	key, narrow := keyOf(route, a)
	o := f.membership.Load().ownerOf(key, narrow, route.Provider, "", time.Now())
	if !o.found() {
		return "", ""
	}
	return o.identity, o.node.name
}
