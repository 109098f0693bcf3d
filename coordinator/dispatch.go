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
	dc := &dispatchedChunk{job: job, queue: p.queue, chunk: p.chunk, interval: p.interval, epoch: job.record.Term}
	go func() {
		defer job.dispatches.Done()
		err := pipeline.Contain(dc.sendToProber)
		if err == nil {
			err = pipeline.Contain(dc.commitReturned)
		}
		dc.release()
		if err != nil {
			job.fail(err)
		}
	}()
}

// release stops counting the dispatched chunk, once.
func (dc *dispatchedChunk) release() {
	if !dc.released {
		dc.released = true
		dc.job.c.scheduler.chunkReturned(dc)
	}
}

// sendToProber reads the chunk and sends its rows to the prober. Its error is our own failure; rows that the prober could not
// finish become unfinished.
func (dc *dispatchedChunk) sendToProber() error {
	job := dc.job
	if err := dc.readRows(); err != nil {
		return err
	}
	dc.indexRows()
	job.c.scheduler.answered(dc, int(dc.chunk.rows)-dc.unanswered)
	if dc.unanswered == 0 || job.ctx.Err() != nil {
		dc.markUnfinished()
		return nil
	}
	batch := &wire.Batch{
		Job: job.record.ID, Chunk: dc.chunk.number, Epoch: dc.epoch, Class: dc.chunk.class, Egress: dc.chunk.source,
		MaxAge: job.record.MaxAge, NoSMTP: job.record.NoSMTP, Short: job.c.scheduler.isShort(job), LongBacklog: job.c.scheduler.longBacklog(job, dc.chunk.class), Started: job.record.StartedAt, Rows: dc.rows.Batch,
	}
	err := job.c.cfg.Prober.Verify(job.ctx, batch, job.c.cfg.Hold, dc.collect)
	if err != nil && job.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		job.c.log.Warn("prober failed; its rows are asked again", "job", job.record.ID, "chunk", dc.chunk.number, "error", err)
	}
	dc.markUnfinished()
	return nil
}

// readRows reads the chunk's rows without an answer.
func (dc *dispatchedChunk) readRows() error {
	buf := dc.job.c.pools.buffers.Get()
	defer dc.job.c.pools.buffers.Put(buf)
	b, err := dc.job.chunks.read(dc.chunk, buf)
	if err != nil {
		return err
	}
	if dc.rows, err = chunks.Unpack(b, dc.job.c.table.Load(), dc.job.answered.Has); err != nil {
		return fmt.Errorf("chunk %d: %w", dc.chunk.number, err)
	}
	return nil
}

func (dc *dispatchedChunk) indexRows() {
	dc.unanswered = dc.rows.Len()
	dc.done = make([]bool, dc.unanswered)
	dc.byRow = make([]uint64, dc.unanswered)
	for i := range dc.rows.Batch {
		dc.byRow[i] = uint64(dc.rows.Batch[i].Number)<<32 | uint64(i)
	}
	slices.Sort(dc.byRow)
}

// indexOf returns the index of a row in the batch, or -1.
func (dc *dispatchedChunk) indexOf(row uint32) int {
	if next := dc.lastIndex + 1; next < dc.rows.Len() && dc.rows.Batch[next].Number == row {
		dc.lastIndex = next
		return next
	}
	i, ok := slices.BinarySearchFunc(dc.byRow, row, func(k uint64, row uint32) int { return cmp.Compare(uint32(k>>32), row) })
	if !ok {
		return -1
	}
	dc.lastIndex = int(uint32(dc.byRow[i]))
	return dc.lastIndex
}

// collect handles one part of the results. It ignores results of another chunk or epoch, of unknown rows, and second results
// of a row.
func (dc *dispatchedChunk) collect(r wire.Results) {
	if r.Chunk != dc.chunk.number || r.Epoch != dc.epoch || r.Job != dc.job.record.ID {
		return
	}
	now := time.Now()
	dc.logRows = dc.logRows[:0]
	done := 0
	for i := range r.Rows {
		res := &r.Rows[i]
		p := dc.indexOf(res.Row)
		if p < 0 || dc.done[p] {
			continue
		}
		dc.done[p] = true
		done++
		dc.recordResult(p, res, now)
	}
	dc.unanswered -= done
	dc.job.c.scheduler.answered(dc, done)
	dc.job.c.scheduler.setHeld(dc, r.Held)
	if dc.progressed {
		dc.progressed = false
		dc.job.progress.noteActivity(now)
	}
	if len(dc.logRows) == 0 {
		return
	}
	if err := dc.job.log.Add(dc.logRows); err != nil {
		dc.job.fail(err)
	}
}

// recordResult records one result.
func (dc *dispatchedChunk) recordResult(p int, res *wire.Result, now time.Time) {
	a := dc.rows.RowAt(p)
	dc.progressed = dc.progressed || res.Outcome != wire.Returned
	if res.Outcome != wire.Settled {
		r := unfinishedRow{index: p, due: res.Due, attempt: max(res.Attempt, a.Attempt), source: res.Egress}
		if res.Outcome == wire.Deferred && dc.chunk.source != "" && res.Egress != dc.chunk.source {
			r.attempt = res.Attempt // another source: this was a first contact, so its attempts start again
		}
		if r.source == "" && res.Outcome == wire.Returned {
			r.source = dc.chunk.source // it stays bound to its source
		}
		dc.unfinished = append(dc.unfinished, r)
		if res.Outcome == wire.Deferred {
			dc.recordDeferral(&a, r, res, now)
		}
		return
	}
	if !dc.job.answered.Add(a.Number) {
		return
	}
	dc.answered++
	dc.job.progress.count(res.Verdict.Reason)
	dc.job.c.metrics.rows[res.Verdict.Status].Add(1)
	dc.logRows = append(dc.logRows, logRow(&a, jobfiles.Final, &res.Verdict, now))
}

// recordDeferral logs that a row is probed again later, with its provisional verdict.
func (dc *dispatchedChunk) recordDeferral(a *chunks.Row, r unfinishedRow, res *wire.Result, now time.Time) {
	row := jobfiles.Row{Number: a.Number}
	if res.Verdict.Status == engine.Unknown && res.Verdict.Reason != engine.ReasonNone {
		row = logRow(a, jobfiles.Provisional, &res.Verdict, now)
	}
	row.Deferred, row.Deferral = true, jobfiles.Deferral{Due: r.due, Attempt: r.attempt, Source: r.source}
	dc.logRows = append(dc.logRows, row)
}

// markUnfinished marks every row without a result as unfinished.
func (dc *dispatchedChunk) markUnfinished() {
	for p := range dc.done {
		if !dc.done[p] {
			dc.unfinished = append(dc.unfinished, unfinishedRow{index: p, attempt: dc.rows.Batch[p].Attempt, source: dc.chunk.source})
		}
	}
}
