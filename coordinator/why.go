package coordinator

import (
	"context"
	"time"

	"probity/coordinator/fleet"
	"probity/coordinator/plan"
	"probity/coordinator/progress"
	"probity/coordinator/why"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire"
	"probity/store"
)

// Why says what the open rows of a job wait for.
type Why struct {
	State     store.JobState
	At        time.Time
	Open      int64          // addresses without a verdict
	Receivers []why.Receiver // only while it runs
	Unreached []string       // nodes that did not answer: what they hold back is not told
}

// Why explains what the open rows of a job wait for. It asks the nodes for their ready queues.
func (c *Coordinator) Why(ctx context.Context, id string) (w Why, err error) {
	if err := pipeline.Acquire(ctx, c.whySlots); err != nil {
		return w, err
	}
	defer func() { <-c.whySlots }()
	snap, err := c.Snapshot(id)
	if err != nil {
		return w, err
	}
	w = Why{State: snap.State, At: time.Now()}
	if !snap.State.Finished() {
		w.Open = snap.Unique - snap.Answered
	}
	job := jobAtWork(c, id)
	if job == nil {
		return w, nil
	}
	queues, unreached := readyQueues(ctx, c.cfg.Prober)
	w.Unreached, w.At = unreached, time.Now()
	w.Receivers, err = job.explain(queues, maxWhyRead, w.At)
	if err != nil && jobAtWork(c, id) != job {
		err = nil // its work has ended, and its scratch file is gone
	}
	return w, err
}

// readyQueues returns the ready queues of the nodes, and the nodes that did not answer.
func readyQueues(ctx context.Context, of wire.Prober) (queues []fleet.ReadyQueueReport, unreached []string) {
	switch p := of.(type) {
	case fleet.Views:
		return p.ReadyQueues(ctx)
	case wire.Views:
		return fleet.LocalViews{Views: p}.ReadyQueues(ctx)
	}
	return nil, nil
}

// explain explains what the open rows wait for. About so many of them are read.
func (job *runningJob) explain(queues []fleet.ReadyQueueReport, most int, now time.Time) ([]why.Receiver, error) {
	counts := job.progress.Counts()
	waits, err := job.chunks.Waits(now, refusedShare(&counts), most)
	if err != nil {
		return nil, err
	}
	f := why.Facts{
		Waits: waits, Queues: queues, Unresolved: job.progress.Unresolved.Load(), Table: job.c.table.Load(), Sources: 1,
		Now: now,
	}
	f.Deadline, _ = job.ctx.Deadline()
	if counter, ok := job.c.cfg.Prober.(sourceCounter); ok {
		f.Sources = counter.Sources()
	}
	if a, ok := job.c.cfg.Prober.(interface{ Awaited() time.Time }); ok {
		f.Awaited = a.Awaited()
	}
	return why.Explain(&f), nil
}

// jobAtWork returns a job that is being worked on, or nil.
func jobAtWork(c *Coordinator, id string) *runningJob {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runners[id]; r != nil {
		return r.running
	}
	return nil
}

// assumedAnswers is how many answers of mail servers the share that plans assume is worth.
const assumedAnswers = 30

// refusedShare returns the share of refused addresses among those that mail servers answered so far, and those that
// plans assume.
func refusedShare(t *progress.Counts) float64 {
	refused := t[engine.ReasonMailboxNotFound] + t[engine.ReasonMailboxDisabled] + t[engine.ReasonMailboxFull] +
		t[engine.ReasonBlocked] + t[engine.ReasonUnclearRefusal] + t[engine.ReasonRelayDenied]
	accepted := t[engine.ReasonNone] + t[engine.ReasonCatchAll] + t[engine.ReasonAcceptedUnconfirmed] +
		t[engine.ReasonRoleAccount] + t[engine.ReasonPossibleTypo] + t[engine.ReasonLowQuality]
	return (float64(refused) + assumedAnswers*plan.DefaultRefused) / (float64(refused+accepted) + assumedAnswers)
}
