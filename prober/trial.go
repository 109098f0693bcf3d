package prober

import (
	"context"
	"time"

	"probity/engine"
	"probity/prober/conn"
	"probity/prober/hostqueue"
	"probity/prober/source"
	"probity/prober/wire"
)

// watch makes a source's trial connections of a kind while it needs them. A reachability trial asks about no recipient.
// A delisting trial needs no row: rows are returned at once while the source is quarantined, and the next job may come
// hours later. The source sends a decoy (a random recipient), whose reply says as much about the source as any. Only if
// that is impossible, a row that waits a moment later is the trial. The decoy goes to the receivers that refused the
// source as blocklisted, known providers first: they reply, and a blocklist that they use matters. After a restart the
// trial goes to the receiver of the last blocked row.
func (p *Prober) watch(src *source.Source, kind source.TrialKind) {
	if !src.StartWatch(kind, time.Now()) {
		return
	}
	p.start(func(soft, _ context.Context) {
		for {
			now, pause := time.Now(), 2*source.TrialGrace
			if kind == source.Delisting {
				pause = p.env.Table.Load().Scaled(source.TrialCheckInterval)
			}
			at, to := src.NextTrial(kind, now)
			switch {
			case at.IsZero():
				return
			case now.Before(at):
				// then NextTrial tells again: the source may need none any more, or one sooner
				pause = min(pause, at.Sub(now))
			case to.Domain == "": // it is left to a row
			case p.mustNotAsk(&to):
				src.DropTarget(kind, &to)
				continue
			case kind == source.Reachability:
				if q := p.queueOf(&to.Route, src, now); q != nil && q.SendReachTrial(&to, now) {
					continue
				}
			case kind == source.Delisting:
				k := p.cfg.Cache.Keyer()
				// no caller waits for the result
				if decoy, err := engine.Parse(hostqueue.DecoyLocalPart(k, to.Domain, now) + "@" +
					to.Domain); err == nil {
					p.startProbe(k.Key(decoy), &wire.SingleRequest{Address: decoy, Route: &to.Route, Low: true,
						Egress: src.Name}, waiter{}, 0, now)
				}
			}
			if !sleep(soft, pause) {
				return
			}
		}
	})
}

// mustNotAsk reports whether the suppression list or the current provider table excludes this target.
func (p *Prober) mustNotAsk(o *source.Target) bool {
	return p.cfg.Suppressed(o.Domain, o.Hosts) || conn.TableExcludes(p.env.Table.Load(), o.Route.Provider, o.Hosts)
}

// sleep waits; it returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
