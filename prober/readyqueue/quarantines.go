package readyqueue

import (
	"context"
	"time"

	"probity/engine"
	"probity/prober/source"
)

// logLongerBy is how much longer a quarantine must become to be logged again: each recipient that is under way when it
// begins gets the reply that prolongs it.
const logLongerBy = time.Minute

// quarantine quarantines this source at this receiver; all probes that wait, and later ones, get that as evidence.
func (l *locked) quarantine(action engine.ActionKind, until, now time.Time) {
	everywhere := action == engine.ActionQuarantineEverywhere
	if until.Sub(l.budget.QuarantinedUntil) >= l.Scaled(logLongerBy) {
		l.env.Log.Warn("receiver quarantined an egress source", "route", l.Key.Route, "egress", l.Key.Source, "until",
			until)
	}
	if until.After(l.budget.QuarantinedUntil) {
		l.budget.QuarantinedUntil, l.budget.Blocklisted = until, everywhere
	}
	l.env.BudgetLog.RequestLease(&l.budget)
	if l.Provider.Kind == engine.KindWide {
		l.Source.QuarantineAt(l.Provider.ID, l.budget.QuarantinedUntil)
	}
	if everywhere && l.Source.AddBlocklistReport(l.Key.Route, until, l.Scaled(source.DelistingInterval), now) {
		l.env.Log.Error("egress source blocklisted by three routes: quarantined everywhere", "egress", l.Key.Source,
			"until", until)
		l.env.Start(func(context.Context, context.Context) { l.env.Blocklisted(l.Source) })
	}
	l.drain(now)
}

// EndQuarantine ends the quarantine at the receiver. It returns false if there was none. Used budgets stay used.
func (q *Queue) EndQuarantine(now time.Time) bool {
	l := q.lock()
	defer l.unlock()
	return now.Before(l.budget.QuarantinedUntil) && l.endQuarantine(now)
}

// EndBlocklistQuarantine ends the quarantine at the receiver if a public blocklist has caused it.
func (q *Queue) EndBlocklistQuarantine(now time.Time) {
	l := q.lock()
	defer l.unlock()
	if l.budget.Blocklisted {
		l.endQuarantine(now)
	}
}

func (l *locked) endQuarantine(now time.Time) bool {
	l.budget.QuarantinedUntil, l.budget.Blocklisted = time.Time{}, false
	l.Source.QuarantineAt(l.Provider.ID, time.Time{})
	l.env.BudgetLog.RequestLease(&l.budget) // a restart must not find it again
	l.dispatch(now)
	return true
}

// endQuarantineOnReply ends the quarantine of a source whose trial connection got a reply about a recipient that was
// not about us.
func (rh *replyHandler) endQuarantineOnReply() {
	for _, a := range rh.s.seen {
		if a.Finding.Blame == engine.BlameUs || a.Finding.Blame == engine.BlameNetwork {
			return
		}
	}
	if src, env := rh.s.source, rh.l.env; len(rh.s.seen) > 0 && src.LeaveQuarantine(rh.Now) {
		env.Log.Warn("egress source no longer blocklisted", "egress", src.Name)
		env.Start(func(context.Context, context.Context) { env.Delisted(src) })
	}
}

// connectDisabled reports whether the queue may open no connection now.
func (l *locked) connectDisabled(now time.Time) bool {
	return l.probingDisabled || l.noSenderIdentity || l.quarantined(now)
}

// quarantined reports whether the receiver quarantined this source. If the source is quarantined everywhere,
// its trial connection decides instead: see openConnection.
func (l *locked) quarantined(now time.Time) bool {
	return now.Before(l.budget.QuarantinedUntil) && !(l.budget.Blocklisted && l.Source.Quarantined(now))
}

// blocked reports whether rows do not wait for this source: it is quarantined here, or everywhere with no trial
// connection due.
func (l *locked) blocked(now time.Time) bool {
	return l.quarantined(now) || l.Source.AwaitingTrial(now)
}
