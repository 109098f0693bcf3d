package singles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator"
	"probity/coordinator/results"
	"probity/engine"
	"probity/store"
	"probity/store/history"
)

// Finished is the event of a single call that has its verdict.
const Finished = "single.finished"

// MaxWaiting bounds the calls of an account that wait for their verdicts.
const MaxWaiting = 1000

const (
	maxWait     = 24 * time.Hour   // for a verdict
	maxTrying   = 64               // verifications at one time
	tryTimeout  = 30 * time.Second // of one verification
	minDelay    = 2 * time.Second  // until the next one
	maxDelay    = 5 * time.Minute
	pollEvery   = time.Second
	sweepEvery  = time.Hour
	greylistLag = time.Second // after the time that a retry is planned for
)

// Config configures a Late. All but History and Log are required.
type Config struct {
	Store       *store.Store
	Coordinator *coordinator.Coordinator
	Notify      func()           // a callback is due
	History     *history.History // gets the verdicts; nil: none does
	Log         *slog.Logger     // default: none
}

// Late answers calls later.
type Late struct {
	cfg Config

	mu        sync.Mutex // guards both
	waiting   map[string]*wait
	byAccount map[string]int // of waiting
}

// wait is a call without a verdict.
type wait struct {
	Call
	due    time.Time
	tries  int
	trying bool
}

// Open reads the calls that wait. It starts nothing.
func Open(cfg Config) (*Late, error) {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	l := &Late{cfg: cfg, waiting: map[string]*wait{}, byAccount: map[string]int{}}
	now := time.Now()
	err := visit(cfg.Store, func(c Call) error {
		if c.Answered.IsZero() {
			l.add(c, now.Add(minDelay))
		}
		return nil
	})
	return l, err
}

// HasRoom reports whether another call of the account may wait.
func (l *Late) HasRoom(account string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byAccount[account] < MaxWaiting
}

// Accept is the part of a call's settlement that has it answered later. After the commit the caller passes the call to
// Add.
func (l *Late) Accept(c *Call) store.Part { return c.write() }

// Add makes an accepted call wait. Its verdict is not due before the retry that its answer has announced, if it has
// one; that of a test key is due at once.
func (l *Late) Add(c Call, v *engine.Verdict) {
	due := time.Now()
	if !c.Test {
		due = dueAfter(v, 0, due)
	}
	l.add(c, due)
}

func (l *Late) add(c Call, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[c.ID] = &wait{Call: c, due: due}
	l.byAccount[c.Account]++
}

// dueAfter returns when a call is verified again after an answer without a verdict.
func dueAfter(v *engine.Verdict, tries int, now time.Time) time.Time {
	due := now.Add(min(maxDelay, minDelay<<min(tries, 10)))
	retry := v.Details.NextRetry.Add(greylistLag)
	if v.Reason == engine.ReasonGreylisted && retry.After(due) {
		due = retry
	}
	return due
}

// Run answers calls until ctx ends or the state store fails.
func (l *Late) Run(ctx context.Context) error {
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	poll, sweep := time.NewTicker(pollEvery), time.NewTicker(sweepEvery)
	defer poll.Stop()
	defer sweep.Stop()
	var all sync.WaitGroup
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-sweep.C:
			if err := l.sweep(now); err != nil && !vfs.IsNoSpaceError(err) {
				stop(err)
			}
		case now := <-poll.C:
			for _, w := range l.takeDue(now) {
				all.Go(func() {
					if err := l.try(ctx, w); err != nil {
						stop(err)
					}
				})
			}
		}
	}
	stop(nil)
	all.Wait()
	if outer.Err() != nil {
		return nil
	}
	return fmt.Errorf("late single calls: %w", context.Cause(ctx))
}

// takeDue returns the calls that are to be verified now.
func (l *Late) takeDue(now time.Time) (due []*wait) {
	if l.cfg.Store.Full() != nil { // a verdict could not be written
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	trying := 0
	for _, w := range l.waiting {
		if w.trying {
			trying++
		}
	}
	for _, w := range l.waiting {
		if trying < maxTrying && !w.trying && !w.due.After(now) {
			w.trying = true
			trying++
			due = append(due, w)
		}
	}
	return due
}

// try verifies a call again, and ends it if it has a verdict or has waited for too long. An error is one of the state
// store.
func (l *Late) try(ctx context.Context, w *wait) error {
	started := time.Now()
	limited, release := context.WithTimeout(ctx, tryTimeout)
	defer release()
	// Evidence that is younger than the call will do.
	r := coordinator.Request{Email: w.Email, MaxAge: started.Sub(w.Made), Batch: true, Test: w.Test,
		Details: w.Details}
	a, err := Verify(limited, l.cfg.Coordinator, r, started, started)
	if ctx.Err() != nil {
		return nil
	}
	now := time.Now()
	open := err != nil || IsOpen(&a.Verdict) && !w.Test
	if err != nil {
		l.cfg.Log.Warn("a single call is verified again later", "request", w.ID, "error", err)
	}
	if open && (err != nil || now.Sub(w.Made) < maxWait) {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.due, w.trying = dueAfter(&a.Verdict, w.tries, now), false
		w.tries++
		return nil
	}
	err = l.answer(w, &a, now)
	if vfs.IsNoSpaceError(err) {
		l.mu.Lock()
		defer l.mu.Unlock()
		w.due, w.trying = now.Add(maxDelay), false
		return nil
	}
	if err != nil {
		return err
	}
	l.forget(w.ID)
	l.record(w, &a, now)
	l.cfg.Notify()
	return nil
}

// record adds a verdict to the history of the account, next to the first answer of the request.
func (l *Late) record(w *wait, a *results.Single, now time.Time) {
	v := history.Verification{At: now, Request: w.ID, Email: w.Email, Key: w.Key, Credits: a.Credits, Test: w.Test,
		Verdict: a.Verdict, Proof: true, Node: a.Node}
	v.Verdict.Score = engine.Score(&a.Verdict, now)
	if a.Table != nil {
		v.Table = a.Table.Hash()
	}
	l.cfg.History.Add(w.Account, nil, v)
}

// answer charges for the verdict and schedules the callback. If the balance does not cover it, the verdict is that of
// the first answer.
func (l *Late) answer(w *wait, a *results.Single, now time.Time) error {
	ref := store.WithKey(w.Charge, w.Key)
	if !w.Test {
		a.Credits = results.Cost(a.Verdict.Status)
	}
	err := l.cfg.Store.ReserveSingle(w.Account, ref, a.Credits)
	if _, poor := errors.AsType[*store.ErrInsufficientCredits](err); poor {
		a.Verdict, a.Credits, err = engine.VerdictFor(w.Reason, coordinator.RuleDeadline, a.Verdict.Flags, w.Made), 0,
			nil
	}
	if err != nil {
		return err
	}
	done := w.Call
	if err := done.finish(a, now); err != nil {
		return err
	}
	parts := []store.Part{done.isThere, done.write(), store.ScheduleSingle(w.Account, w.ID, now)}
	if a.Credits == 0 {
		err = l.cfg.Store.Commit(w.Account, parts...)
	} else {
		err = l.cfg.Store.SettleSingle(w.Account, ref, a.Credits, now, parts...)
	}
	if errors.Is(err, ErrNotFound) { // erased meanwhile
		return l.cfg.Store.SettleSingle(w.Account, ref, 0, now)
	}
	return err
}

func (l *Late) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiting[id]
	if w == nil {
		return
	}
	delete(l.waiting, id)
	l.byAccount[w.Account]--
	if l.byAccount[w.Account] == 0 {
		delete(l.byAccount, w.Account)
	}
}

// sweep removes the calls that were answered longer ago than results are kept.
func (l *Late) sweep(now time.Time) error {
	return l.remove(func(c *Call) bool {
		return !c.Answered.IsZero() && now.Sub(c.Answered) > l.cfg.Coordinator.ResultRetention()
	})
}

// Erase removes the calls about an address, given in folded form, answered or not, and their callbacks.
func (l *Late) Erase(folded string) error {
	return l.remove(func(c *Call) bool {
		a, err := engine.ParseTrimmed(c.Email)
		return err == nil && a.Folded() == folded
	})
}

// remove removes calls and their callbacks. One that waits is forgotten first, so that it is not answered meanwhile.
func (l *Late) remove(unwanted func(*Call) bool) error {
	return visit(l.cfg.Store, func(c Call) error {
		if !unwanted(&c) {
			return nil
		}
		l.forget(c.ID)
		return l.cfg.Store.Commit(c.Account, store.DropCallback(c.ID),
			func(b *pebble.Batch) error { return b.Delete(keyOf(c.ID), nil) })
	})
}
