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

// The trial connection of a source that is quarantined everywhere is a delisting trial. It needs no row: rows are returned at
// once while the source is quarantined, and the next job may come hours later. The source sends a decoy (a random recipient),
// whose reply says as much about the source as any. Only if that is impossible, a row that waits a moment later is the trial.
// The decoy goes to the receivers that refused the source as blocklisted, in turn, known providers first: they reply, and a
// blocklist that they use matters. After a restart the trial goes to the receiver of the last blocked row. Without such a row
// no trial is made.

// mustNotAsk reports that the suppression list or the current provider table excludes this target.
func (p *Prober) mustNotAsk(o *source.Target) bool {
	return p.cfg.Suppressed(o.Domain, o.Hosts) || conn.TableExcludes(p.env.Table.Load(), o.Route.Provider, o.Hosts)
}

// watchQuarantine sends a source's trial connections while it is quarantined.
func (p *Prober) watchQuarantine(src *source.Source) {
	if !src.StartWatch(time.Now()) {
		return
	}
	p.start(func(soft, _ context.Context) {
		for at := src.NextTrial(time.Now()); !at.IsZero(); at = src.NextTrial(time.Now()) {
			if wait := time.Until(at); wait > 0 {
				if !sleep(soft, wait) {
					return
				}
				continue // a row may have been the trial, or the quarantine be over: NextTrial tells, and may end this watch
			}
			to := src.NextTarget()
			for to.Domain != "" && p.mustNotAsk(&to) {
				src.DropTarget(&to)
				to = src.NextTarget()
			}
			if to.Domain != "" {
				now, k := time.Now(), p.cfg.Cache.Keyer()
				if decoy, err := engine.Parse(hostqueue.DecoyLocalPart(k, to.Domain, now) + "@" + to.Domain); err == nil { // no caller waits for the result
					p.startProbe(k.Key(decoy), &wire.SingleRequest{Address: decoy, Route: &to.Route, Low: true, Egress: src.Name}, waiter{}, 0, now)
				}
			}
			if !sleep(soft, p.env.Table.Load().Scaled(source.TrialCheckInterval)) {
				return
			}
		}
	})
}
