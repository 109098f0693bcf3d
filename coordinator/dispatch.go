package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire"
)

// dispatchedChunk is one chunk in flight at a prober.
type dispatchedChunk struct {
	job        *runningJob
	queue      *classQueue
	chunk      chunk
	interval   int // of the in-flight limit, when it was sent
	epoch      uint32
	rows       *chunks.Rows
	byRow      []uint64 // row number and index, sorted
	lastIndex  int      // index of the last row found: results tend to arrive in batch order
	unanswered int      // rows without a result
	done       []bool   // by index: the row has a result

	held       wire.Held // as the prober last reported; guarded by the scheduler's mutex
	unfinished []unfinishedRow
	answered   int
	released   bool           // the scheduler no longer counts it
	progressed bool           // the current results have rows that were probed
	logRows    []jobfiles.Row // of the current results, for the log
}

// unfinishedRow is a row that was returned without an answer.
type unfinishedRow struct {
	index   int
	due     time.Time
	attempt uint8
	source  string
}

const resendPause = time.Second // before rows that were returned without a due time are sent again

// dispatch sends a chunk in a goroutine that runningJob.dispatches counts.
func (job *runningJob) dispatch(p pickedChunk) {
	f := &dispatchedChunk{job: job, queue: p.queue, chunk: p.chunk, interval: p.interval, epoch: job.record.Term}
	go func() {
		defer job.dispatches.Done()
		err := pipeline.Contain(f.sendToProber)
		if err == nil {
			err = pipeline.Contain(f.commitReturned)
		}
		f.release()
		if err != nil {
			job.fail(err)
		}
	}()
}

// release stops counting the dispatched chunk, once.
func (f *dispatchedChunk) release() {
	if !f.released {
		f.released = true
		f.job.c.scheduler.chunkReturned(f)
	}
}

// sendToProber reads the chunk and sends its rows to the prober. Its error is our own failure; rows that the prober could not
// finish become unfinished.
func (f *dispatchedChunk) sendToProber() error {
	job := f.job
	if err := f.readRows(); err != nil {
		return err
	}
	f.indexRows()
	job.c.scheduler.answered(f, int(f.chunk.rows)-f.unanswered)
	if f.unanswered == 0 || job.ctx.Err() != nil {
		f.markUnfinished()
		return nil
	}
	batch := &wire.Batch{
		Job: job.record.ID, Chunk: f.chunk.number, Epoch: f.epoch, Class: f.chunk.class, Egress: f.chunk.source,
		MaxAge: job.record.MaxAge, NoSMTP: job.record.NoSMTP, Short: job.c.scheduler.isShort(job), LongBacklog: job.c.scheduler.longBacklog(job, f.chunk.class), Started: job.record.StartedAt, Rows: f.rows.Batch,
	}
	err := job.c.cfg.Prober.Verify(job.ctx, batch, job.c.cfg.Hold, f.collect)
	if err != nil && job.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		job.c.log.Warn("prober failed; its rows are asked again", "job", job.record.ID, "chunk", f.chunk.number, "error", err)
	}
	f.markUnfinished()
	return nil
}

// readRows reads the chunk's rows without an answer.
func (f *dispatchedChunk) readRows() error {
	buf := f.job.c.pools.buffers.Get()
	defer f.job.c.pools.buffers.Put(buf)
	b, err := f.job.chunks.read(f.chunk, buf)
	if err != nil {
		return err
	}
	if f.rows, err = chunks.Unpack(b, f.job.c.table.Load(), f.job.answered.Has); err != nil {
		return fmt.Errorf("chunk %d: %w", f.chunk.number, err)
	}
	return nil
}

func (f *dispatchedChunk) indexRows() {
	f.unanswered = f.rows.Len()
	f.done = make([]bool, f.unanswered)
	f.byRow = make([]uint64, f.unanswered)
	for i := range f.rows.Batch {
		f.byRow[i] = uint64(f.rows.Batch[i].Number)<<32 | uint64(i)
	}
	slices.Sort(f.byRow)
}

// indexOf returns the index of a row in the batch, or -1.
func (f *dispatchedChunk) indexOf(row uint32) int {
	if next := f.lastIndex + 1; next < f.rows.Len() && f.rows.Batch[next].Number == row {
		f.lastIndex = next
		return next
	}
	i, ok := slices.BinarySearchFunc(f.byRow, row, func(k uint64, row uint32) int { return cmp.Compare(uint32(k>>32), row) })
	if !ok {
		return -1
	}
	f.lastIndex = int(uint32(f.byRow[i]))
	return f.lastIndex
}

// collect handles one part of the results. It ignores results of another chunk or epoch, of unknown rows, and second results
// of a row.
func (f *dispatchedChunk) collect(r wire.Results) {
	if r.Chunk != f.chunk.number || r.Epoch != f.epoch || r.Job != f.job.record.ID {
		return
	}
	now := time.Now()
	f.logRows = f.logRows[:0]
	done := 0
	for i := range r.Rows {
		res := &r.Rows[i]
		p := f.indexOf(res.Row)
		if p < 0 || f.done[p] {
			continue
		}
		f.done[p] = true
		done++
		f.recordResult(p, res, now)
	}
	f.unanswered -= done
	f.job.c.scheduler.answered(f, done)
	f.job.c.scheduler.setHeld(f, r.Held)
	if f.progressed {
		f.progressed = false
		f.job.progress.noteActivity(now)
	}
	if len(f.logRows) == 0 {
		return
	}
	if err := f.job.log.Add(f.logRows); err != nil {
		f.job.fail(err)
	}
}

// recordResult records one result.
func (f *dispatchedChunk) recordResult(p int, res *wire.Result, now time.Time) {
	a := f.rows.RowAt(p)
	f.progressed = f.progressed || res.Outcome != wire.Returned
	if res.Outcome != wire.Settled {
		r := unfinishedRow{index: p, due: res.Due, attempt: max(res.Attempt, a.Attempt), source: res.Egress}
		if res.Outcome == wire.Deferred && f.chunk.source != "" && res.Egress != f.chunk.source {
			r.attempt = res.Attempt // another source: this was a first contact, so its attempts start again
		}
		if r.source == "" && res.Outcome == wire.Returned {
			r.source = f.chunk.source // it stays bound to its source
		}
		f.unfinished = append(f.unfinished, r)
		if res.Outcome == wire.Deferred {
			f.recordDeferral(&a, r, res, now)
		}
		return
	}
	if !f.job.answered.Add(a.Number) {
		return
	}
	f.answered++
	f.job.progress.count(res.Verdict.Reason)
	f.job.c.metrics.rows[res.Verdict.Status].Add(1)
	f.logRows = append(f.logRows, logRow(&a, jobfiles.Final, &res.Verdict, now))
}

// recordDeferral logs that a row is probed again later, with its provisional verdict.
func (f *dispatchedChunk) recordDeferral(a *chunks.Row, r unfinishedRow, res *wire.Result, now time.Time) {
	row := jobfiles.Row{Number: a.Number}
	if res.Verdict.Status == engine.Unknown && res.Verdict.Reason != engine.ReasonNone {
		row = logRow(a, jobfiles.Provisional, &res.Verdict, now)
	}
	row.Deferred, row.Deferral = true, jobfiles.Deferral{Due: r.due, Attempt: r.attempt, Source: r.source}
	f.logRows = append(f.logRows, row)
}

// markUnfinished marks every row without a result as unfinished.
func (f *dispatchedChunk) markUnfinished() {
	for p := range f.done {
		if !f.done[p] {
			f.unfinished = append(f.unfinished, unfinishedRow{index: p, attempt: f.rows.Batch[p].Attempt, source: f.chunk.source})
		}
	}
}
