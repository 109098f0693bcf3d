package readyqueue

import (
	"context"
	"time"

	"probity/engine"
	"probity/prober/hostqueue"
	"probity/prober/source"
)

// logLongerBy is how much longer a quarantine must become to be logged again: each recipient that is under way when it begins gets the
// reply that prolongs it.
const logLongerBy = time.Minute

// quarantine quarantines this source at this receiver; all probes that wait, and later ones, get that as evidence.
func (q *Queue) quarantine(until time.Time, everywhere bool, now time.Time, out []hostqueue.Finished) []hostqueue.Finished {
	if until.Sub(q.budget.QuarantinedUntil) >= q.scaled(logLongerBy) {
		q.env.Log.Warn("receiver quarantined an egress source", "route", q.Key.Route, "egress", q.Key.Source, "until", until)
	}
	if until.After(q.budget.QuarantinedUntil) {
		q.budget.QuarantinedUntil, q.blocklisted = until, everywhere
	}
	q.env.BudgetLog.RequestLease(&q.budget)
	if q.Provider.Kind == engine.KindWide {
		q.Source.QuarantineAt(q.Provider.ID, q.budget.QuarantinedUntil)
	}
	if everywhere && q.Source.AddBlocklistReport(q.Key.Route, until, q.scaled(source.DelistingInterval), now) {
		q.env.Log.Error("egress source blocklisted by three routes: quarantined everywhere", "egress", q.Key.Source, "until", until)
		q.env.Start(func(context.Context, context.Context) { q.env.Blocklisted(q.Source) })
	}
	return q.drain(now, out)
}

// EndQuarantine ends the quarantine at the receiver; without own only one that a public blocklist has caused. It returns false if there was
// none. Used budgets stay used.
func (q *Queue) EndQuarantine(own bool, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if own && !now.Before(q.budget.QuarantinedUntil) || !own && !q.blocklisted {
		return false
	}
	q.budget.QuarantinedUntil, q.blocklisted = time.Time{}, false
	q.Source.QuarantineAt(q.Provider.ID, time.Time{})
	q.env.BudgetLog.RequestLease(&q.budget) // a restart must not find it again
	q.dispatch(now)
	return true
}

// endQuarantineOnReply ends the quarantine of a source whose trial connection got a reply about a recipient that was not about
// us.
func (rh *replyHandler) endQuarantineOnReply() {
	for _, a := range rh.s.seen {
		if a.Finding.Blame == engine.BlameUs || a.Finding.Blame == engine.BlameNetwork {
			return
		}
	}
	if src, env := rh.s.source, rh.q.env; len(rh.s.seen) > 0 && src.LeaveQuarantine(rh.Now) {
		env.Log.Warn("egress source no longer blocklisted", "egress", src.Name)
		env.Start(func(context.Context, context.Context) { env.Delisted(src) })
	}
}

// mayBeTrial reports a ready queue that is quarantined only for a public blocklist, when the trial connection of its source is
// due. The mutex is held.
func (q *Queue) mayBeTrial(now time.Time) bool {
	return q.blocklisted && q.Source.Quarantined(now) && !q.Source.AwaitingTrial(now)
}

// connectDisabled reports a ready queue that may open no connection now. The mutex is held.
func (q *Queue) connectDisabled(now time.Time) bool {
	return q.probingDisabled || q.noSenderIdentity || q.quarantined(now)
}

// quarantined reports a ready queue whose receiver quarantined this source. If the source is quarantined everywhere, its trial
// connection decides instead: see openConnection.
func (q *Queue) quarantined(now time.Time) bool {
	return now.Before(q.budget.QuarantinedUntil) && !(q.blocklisted && q.Source.Quarantined(now))
}
