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
	// Forget deletes an address, given in folded form, from every cache except those that are done. It returns how many verdicts
	// each reached cache had, and which caches were not reached. An error means that the set of caches is unknown.
	Forget(ctx context.Context, folded string, done func(node string) bool) (reached map[string]int, unreachable []string, err error)
	// Reachable reports whether a node can be reached now.
	Reachable(node string) bool
}

// Config configures an Eraser.
type Config struct {
	Store   *store.Store
	Jobs    *Jobs
	Caches  Caches                           // nil if another process has them: erasures wait for it
	Answers func(folded string) (int, error) // deletes answers kept for their Idempotency-Key
	Log     *slog.Logger                     // default: none
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

// Erase erases an address. The error is nil once the erasure is durable; the receipt says what was reached. Run retries the
// rest, in this process or the next.
func (r *Eraser) Erase(ctx context.Context, a engine.Address, by string, now time.Time) (store.Erasure, error) {
	e, err := r.cfg.Store.RequestErasure(a.Folded(), by, now)
	if err != nil {
		return e, err
	}
	if err := r.tryErasure(ctx, e.ID); err != nil && ctx.Err() == nil {
		return e, err
	}
	return r.cfg.Store.Erasure(e.ID)
}

// Run retries open erasures until ctx ends or the state store fails.
func (r *Eraser) Run(ctx context.Context) error {
	tick := time.NewTicker(erasePoll)
	defer tick.Stop()
	tried := map[string]*attempt{} // by this process
	for {
		if err := r.tryPending(ctx, tried); err != nil && ctx.Err() == nil && !vfs.IsNoSpaceError(err) {
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

func (r *Eraser) tryPending(ctx context.Context, tried map[string]*attempt) error {
	ids, err := r.cfg.Store.OpenErasures()
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
		if last != nil && !r.nodeReturned(id, last) && time.Since(last.at) < eraseRetryEvery {
			continue
		}
		last = &attempt{time.Now(), map[string]bool{}}
		tried[id] = last
		if err := r.tryErasure(ctx, id); err != nil {
			return err
		}
		r.nodeReturned(id, last) // records which nodes are absent
	}
	return nil
}

// nodeReturned reports whether the erasure waits for a node that was absent after the last try and is reachable now. A node that
// was reachable and failed waits for the next minute.
func (r *Eraser) nodeReturned(id string, last *attempt) (back bool) {
	e, err := r.cfg.Store.Erasure(id)
	if err != nil || r.cfg.Caches == nil {
		return false
	}
	for _, c := range e.Caches {
		switch {
		case !c.Done.IsZero():
		case !r.cfg.Caches.Reachable(c.Node):
			last.unreachable[c.Node] = true
		case last.unreachable[c.Node]:
			back = true
		}
	}
	return back
}

// tryErasure runs all steps of an open erasure. A failed step is recorded in the erasure, and the next step runs anyway. An
// error means that the state store failed or ctx has ended.
func (r *Eraser) tryErasure(ctx context.Context, id string) error {
	if err := pipeline.Acquire(ctx, r.slot); err != nil {
		return err
	}
	defer func() { <-r.slot }()
	e, err := r.cfg.Store.Erasure(id)
	if err != nil || !e.Open() {
		return err
	}
	if e.Address == "" { // only its end failed
		return r.finish(ctx, &e)
	}
	was := e.Fault
	e.LastTry = time.Now().UTC()
	var faults []string
	for _, step := range [...]func(context.Context, *store.Erasure) error{r.eraseJobs, r.eraseAnswers, r.eraseCaches} {
		err := step(ctx, &e)
		if errors.Is(err, store.ErrBroken) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if err != nil {
			faults = append(faults, strings.ReplaceAll(err.Error(), e.Address, erasedText))
		}
		e.Fault = strings.Join(faults, "; ")
		if err := r.cfg.Store.SaveErasure(&e); err != nil {
			return err
		}
	}
	waits := slices.ContainsFunc(e.Caches, func(c store.ErasedCache) bool { return c.Done.IsZero() && e.LastTry.Before(c.Until) })
	switch {
	case e.Fault == "" && !waits:
		return r.finish(ctx, &e)
	case e.Fault != was:
		r.cfg.Log.Warn("an erasure is not finished: it is tried again each minute", "erasure", e.ID, "error", e.Fault)
	}
	return nil
}

// finish ends an erasure that has reached everything. A failure is tried again with the others.
func (r *Eraser) finish(ctx context.Context, e *store.Erasure) error {
	err := r.cfg.Store.FinishErasure(ctx, e)
	if err == nil || errors.Is(err, store.ErrBroken) || ctx.Err() != nil {
		return err
	}
	r.cfg.Log.Warn("an erasure is not finished: it is tried again each minute", "erasure", e.ID, "error", err)
	return nil
}

// eraseJobs is the step for the files of jobs. Each job that contains the address is recorded durably before it is changed.
func (r *Eraser) eraseJobs(ctx context.Context, e *store.Erasure) error {
	if e.JobsDone {
		return nil
	}
	left, err := r.cfg.Jobs.Erase(ctx, e.Address, e.JobsLeft, func(job string, rows int64) error {
		if e.Jobs == nil {
			e.Jobs = map[string]int64{}
		}
		e.Jobs[job] = max(e.Jobs[job], rows)
		e.JobCount, e.Rows = int64(len(e.Jobs)), 0
		for _, n := range e.Jobs {
			e.Rows += n
		}
		return r.cfg.Store.SaveErasure(e)
	})
	e.JobsLeft, e.JobsDone = left, err == nil
	return err
}

func (r *Eraser) eraseAnswers(_ context.Context, e *store.Erasure) error {
	n, err := r.cfg.Answers(e.Address)
	e.Answers += int64(n)
	return err
}

var errNoCaches = errors.New("the caches are erased when the server runs")

// eraseCaches is the step for the caches that are not done.
func (r *Eraser) eraseCaches(ctx context.Context, e *store.Erasure) error {
	if r.cfg.Caches == nil {
		return errNoCaches
	}
	at := func(node string) *store.ErasedCache {
		i := slices.IndexFunc(e.Caches, func(c store.ErasedCache) bool { return c.Node == node })
		if i < 0 {
			i = len(e.Caches)
			e.Caches = append(e.Caches, store.ErasedCache{Node: node, Until: e.Requested.Add(cacheLife)})
		}
		return &e.Caches[i]
	}
	reached, unreachable, err := r.cfg.Caches.Forget(ctx, e.Address, func(node string) bool {
		return slices.ContainsFunc(e.Caches, func(c store.ErasedCache) bool { return c.Node == node && !c.Done.IsZero() })
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
