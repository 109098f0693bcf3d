package erase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/engine"
	"probity/internal/pipeline"
	"probity/store"
)

// Caches is where verdicts are cached: the cache of this process, or those of all nodes of a fleet.
type Caches interface {
	// Forget deletes an address, given in folded form, from every cache except those that are done. It returns how many
	// verdicts each reached cache had, and which caches were not reached. An error means that the set of caches is
	// unknown.
	Forget(ctx context.Context, folded string, done func(node string) bool) (reached map[string]int,
		unreachable []string, err error)
	// Reachable reports whether a node can be reached now.
	Reachable(node string) bool
}

// Config configures an Eraser.
type Config struct {
	Store   *store.Store
	Jobs    *Jobs
	Caches  Caches                           // nil if another process has them: erasures wait for it
	Answers func(folded string) (int, error) // deletes answers kept for their Idempotency-Key
	Reports func(folded string) (int, error) // deletes what is kept for reports about messages
	// Calls deletes single calls: those in the history of accounts, and those that are answered later; nil: there are
	// none.
	Calls func(ctx context.Context, folded string) error
	Log   *slog.Logger // default: none
}

// Eraser erases addresses everywhere, and tries again what could not be reached.
type Eraser struct {
	cfg  Config
	slot chan struct{} // one erasure at a time
}

// Intervals of an Eraser.
const (
	cacheLife       = 31 * 24 * time.Hour // longest life of a cached verdict
	erasePoll       = 5 * time.Second     // between checks for nodes that are back
	eraseRetryEvery = time.Minute
)

// New makes an Eraser. It starts nothing.
func New(cfg Config) *Eraser {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Eraser{cfg, make(chan struct{}, 1)}
}

// Erase erases an address. The error is nil once the erasure is durable; the receipt says what was reached. Run retries
// the rest, in this process or the next.
func (e *Eraser) Erase(ctx context.Context, a engine.Address, by string, now time.Time) (store.Erasure, error) {
	erasure, err := e.cfg.Store.RequestErasure(a.Folded(), by, now)
	if err != nil {
		return erasure, err
	}
	if err := e.tryErasure(ctx, erasure.ID); err != nil && ctx.Err() == nil {
		return erasure, err
	}
	return e.cfg.Store.Erasure(erasure.ID)
}

// Run retries open erasures until ctx ends or the state store fails.
func (e *Eraser) Run(ctx context.Context) error {
	tick := time.NewTicker(erasePoll)
	defer tick.Stop()
	tried := map[string]*attempt{} // by this process
	for {
		if err := e.tryPending(ctx, tried); err != nil && ctx.Err() == nil && !vfs.IsNoSpaceError(err) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// attempt is the last try of an open erasure.
type attempt struct {
	at          time.Time
	unreachable map[string]bool // nodes that it waits for and that were absent since
}

func (e *Eraser) tryPending(ctx context.Context, tried map[string]*attempt) error {
	ids, err := e.cfg.Store.OpenErasures()
	if err != nil {
		return err
	}
	for id := range tried {
		if !slices.Contains(ids, id) {
			delete(tried, id)
		}
	}
	for _, id := range ids {
		last := tried[id]
		if last != nil && !e.nodeReturned(id, last) && time.Since(last.at) < eraseRetryEvery {
			continue
		}
		last = &attempt{time.Now(), map[string]bool{}}
		tried[id] = last
		if err := e.tryErasure(ctx, id); err != nil {
			return err
		}
		e.nodeReturned(id, last) // records which nodes are absent
	}
	return nil
}

// nodeReturned reports whether the erasure waits for a node that was absent after the last try and is reachable now. A
// node that was reachable and failed waits for the next minute.
func (e *Eraser) nodeReturned(id string, last *attempt) (back bool) {
	erasure, err := e.cfg.Store.Erasure(id)
	if err != nil || e.cfg.Caches == nil {
		return false
	}
	for _, c := range erasure.Caches {
		switch {
		case !c.Done.IsZero():
		case !e.cfg.Caches.Reachable(c.Node):
			last.unreachable[c.Node] = true
		case last.unreachable[c.Node]:
			back = true
		}
	}
	return back
}

// tryErasure runs all steps of an open erasure. A failed step is recorded in the erasure, and the next step runs
// anyway. An error means that the state store failed or ctx has ended.
func (e *Eraser) tryErasure(ctx context.Context, id string) error {
	if err := pipeline.Acquire(ctx, e.slot); err != nil {
		return err
	}
	defer func() { <-e.slot }()
	erasure, err := e.cfg.Store.Erasure(id)
	if err != nil || !erasure.Open() {
		return err
	}
	if erasure.Address == "" { // only its end failed
		return e.finish(ctx, &erasure)
	}
	was := erasure.Fault
	erasure.LastTry = time.Now().UTC()
	var faults []string
	for _, step := range [...]func(context.Context, *store.Erasure) error{e.eraseJobs, e.eraseAnswers, e.eraseCalls,
		e.eraseReports, e.eraseCaches} {
		err := step(ctx, &erasure)
		if errors.Is(err, store.ErrBroken) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err != nil {
			faults = append(faults, strings.ReplaceAll(err.Error(), erasure.Address, erasedText))
		}
		erasure.Fault = strings.Join(faults, "; ")
		if err := e.cfg.Store.SaveErasure(&erasure); err != nil {
			return err
		}
	}
	waits := slices.ContainsFunc(erasure.Caches, func(c store.ErasedCache) bool {
		return c.Done.IsZero() && erasure.LastTry.Before(c.Until)
	})
	switch {
	case erasure.Fault == "" && !waits:
		return e.finish(ctx, &erasure)
	case erasure.Fault != was:
		e.cfg.Log.Warn("an erasure is not finished: it is tried again each minute",
			"erasure", erasure.ID, "error", erasure.Fault)
	}
	return nil
}

// finish ends an erasure that has reached everything. A failure is tried again with the others.
func (e *Eraser) finish(ctx context.Context, erasure *store.Erasure) error {
	err := e.cfg.Store.FinishErasure(ctx, erasure)
	if err == nil || errors.Is(err, store.ErrBroken) || ctx.Err() != nil {
		return err
	}
	e.cfg.Log.Warn("an erasure is not finished: it is tried again each minute", "erasure", erasure.ID, "error", err)
	return nil
}

// eraseJobs is the step for the files of jobs. Each job that contains the address is recorded durably before it is
// changed.
func (e *Eraser) eraseJobs(ctx context.Context, erasure *store.Erasure) error {
	if erasure.JobsDone {
		return nil
	}
	left, err := e.cfg.Jobs.Erase(ctx, erasure.Address, erasure.JobsLeft, func(job string, rows int64) error {
		if erasure.Jobs == nil {
			erasure.Jobs = map[string]int64{}
		}
		erasure.Jobs[job] = max(erasure.Jobs[job], rows)
		erasure.JobCount, erasure.Rows = int64(len(erasure.Jobs)), 0
		for _, n := range erasure.Jobs {
			erasure.Rows += n
		}
		return e.cfg.Store.SaveErasure(erasure)
	})
	erasure.JobsLeft, erasure.JobsDone = left, err == nil
	return err
}

func (e *Eraser) eraseAnswers(_ context.Context, erasure *store.Erasure) error {
	n, err := e.cfg.Answers(erasure.Address)
	erasure.Answers += int64(n)
	return err
}

func (e *Eraser) eraseCalls(ctx context.Context, erasure *store.Erasure) error {
	if e.cfg.Calls == nil {
		return nil
	}
	return e.cfg.Calls(ctx, erasure.Address)
}

// eraseReports is the step for what is kept for reports about messages to the address.
func (e *Eraser) eraseReports(_ context.Context, erasure *store.Erasure) error {
	n, err := e.cfg.Reports(erasure.Address)
	erasure.Reports += int64(n)
	return err
}

var errNoCaches = errors.New("the caches are erased when the server runs")

// eraseCaches is the step for the caches that are not done.
func (e *Eraser) eraseCaches(ctx context.Context, erasure *store.Erasure) error {
	if e.cfg.Caches == nil {
		return errNoCaches
	}
	at := func(node string) *store.ErasedCache {
		i := slices.IndexFunc(erasure.Caches, func(c store.ErasedCache) bool { return c.Node == node })
		if i < 0 {
			i = len(erasure.Caches)
			erasure.Caches = append(erasure.Caches,
				store.ErasedCache{Node: node, Until: erasure.Requested.Add(cacheLife)})
		}
		return &erasure.Caches[i]
	}
	reached, unreachable, err := e.cfg.Caches.Forget(ctx, erasure.Address, func(node string) bool {
		return slices.ContainsFunc(erasure.Caches, func(c store.ErasedCache) bool {
			return c.Node == node && !c.Done.IsZero()
		})
	})
	for node, verdicts := range reached {
		c := at(node)
		c.Verdicts, c.Done, c.Until = int64(verdicts), time.Now().UTC(), time.Time{}
	}
	for _, node := range unreachable {
		at(node)
	}
	if err != nil {
		return fmt.Errorf("caches: %w", err)
	}
	return nil
}
