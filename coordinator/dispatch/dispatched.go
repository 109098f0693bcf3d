package dispatch

import (
	"context"
	"errors"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/details"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire"
)

// dispatchedChunk is one chunk in flight at a prober.
type dispatchedChunk struct {
	job        *Job
	queue      *classQueue
	chunk      chunks.Chunk
	interval   int // of the in-flight limit, when it was sent
	rows       *chunks.Rows
	indexOf    map[uint32]int // index in the batch, by the number of the row
	unanswered int            // rows without a result
	done       []bool         // by index: the row has a result

	budgetWait wire.BudgetWait // as the prober last reported; guarded by the scheduler's mutex
	open       int             // rows without a result, as the scheduler knows; guarded by its mutex
	unfinished []unfinishedRow
	answered   int
	released   bool           // the scheduler no longer counts it
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

// run sends the chunk and collects its results, in a goroutine that Job.dispatched counts already.
func (dc *dispatchedChunk) run() {
	defer dc.job.dispatched.Done()
	err := pipeline.Contain(dc.sendToProber)
	dc.release()
	if err != nil {
		dc.job.cfg.Fail(err)
	}
}

// release stops counting the dispatched chunk, once.
func (dc *dispatchedChunk) release() {
	if !dc.released {
		dc.released = true
		dc.job.scheduler.chunkReturned(dc)
	}
}

// sendToProber reads the chunk's rows without an answer and sends them to the prober. Its error is our own failure;
// rows that the prober could not finish become unfinished, and then chunks to send again.
func (dc *dispatchedChunk) sendToProber() error {
	job, d := dc.job, dc.job.scheduler
	var err error
	if dc.rows, err = job.cfg.File.Read(dc.chunk, d.cfg.Table(), job.cfg.Progress.Answered.Has); err != nil {
		return err
	}
	dc.unanswered = len(dc.rows.Batch)
	dc.done = make([]bool, dc.unanswered)
	dc.indexOf = make(map[uint32]int, dc.unanswered)
	for i := range dc.rows.Batch {
		dc.indexOf[dc.rows.Batch[i].Number] = i
	}
	d.answered(dc, int(dc.chunk.Rows)-dc.unanswered, wire.BudgetWait{})
	if dc.unanswered > 0 && job.ctx.Err() == nil {
		short, longBacklog := d.compare(job, dc.chunk.Class)
		batch := &wire.Batch{
			Job: job.cfg.Record.ID, Chunk: dc.chunk.Number, Epoch: job.cfg.Record.Term, Class: dc.chunk.Class,
			MaxAge: job.cfg.Record.MaxAge, NoSMTP: job.cfg.Record.NoSMTP, Details: job.cfg.Record.Details, Short: short,
			LongBacklog: longBacklog, Started: job.cfg.Record.StartedAt, Rows: dc.rows.Batch,
		}
		if dc.chunk.Source != "" {
			batch.Egress = []string{dc.chunk.Source}
		}
		err := d.cfg.Prober.Verify(job.ctx, batch, d.cfg.Hold, dc.collect)
		if err != nil && job.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			d.cfg.Log.Warn("prober failed; its rows are asked again", "job", job.cfg.Record.ID, "chunk",
				dc.chunk.Number, "error", err)
		}
	}
	for p, done := range dc.done {
		if !done {
			dc.unfinished = append(dc.unfinished, unfinishedRow{index: p, attempt: dc.rows.Batch[p].Attempt,
				source: dc.chunk.Source})
		}
	}
	if job.ctx.Err() != nil { // the chunk file is removed anyway
		return nil
	}
	now := time.Now()
	var made []chunks.Chunk
	if len(dc.unfinished) > 0 {
		if again, ok := dc.resend(now); ok {
			made = []chunks.Chunk{again}
		} else {
			made, err = job.cfg.File.Write(dc.resplit(now))
		}
	}
	dc.release()
	if err != nil {
		return err
	}
	job.chunkCount.Add(int64(len(made) - 1))
	d.add(job, made)
	job.checkFinished()
	return nil
}

// collect handles one part of the results. It ignores results of another chunk or epoch, of unknown rows, and second
// results of a row.
func (dc *dispatchedChunk) collect(r wire.Results) {
	job := dc.job
	if r.Chunk != dc.chunk.Number || r.Epoch != job.cfg.Record.Term || r.Job != job.cfg.Record.ID {
		return
	}
	now := time.Now()
	dc.logRows = dc.logRows[:0]
	finished, probed := 0, false
	logEntry := func(a *chunks.Row, k jobfiles.Kind, v *engine.Verdict) jobfiles.Row {
		entry := a.LogEntry(k, v, now)
		if job.cfg.Record.Details {
			entry.Details = string(details.Pack(nil, v, r.Node, now))
		}
		return entry
	}
	for i := range r.Rows {
		res := &r.Rows[i]
		p, known := dc.indexOf[res.Row]
		if !known || dc.done[p] {
			continue
		}
		dc.done[p] = true
		finished++
		probed = probed || res.Outcome != wire.Returned
		a := dc.rows.RowAt(p)
		u := unfinishedRow{index: p, due: res.Due, attempt: max(res.Attempt, a.Attempt), source: res.Egress}
		switch {
		case res.Outcome == wire.Returned:
			u.source = dc.chunk.Source // it stays bound to its source
			dc.unfinished = append(dc.unfinished, u)
		case res.Outcome != wire.Settled:
			if dc.chunk.Source != "" && res.Egress != dc.chunk.Source {
				u.attempt = res.Attempt // another source: this was a first contact, so its attempts start again
			}
			dc.unfinished = append(dc.unfinished, u)
			// A deferral goes into the log with its provisional verdict, so that a restart knows it.
			row := jobfiles.Row{Number: a.Number}
			if res.Verdict.Status == engine.Unknown && res.Verdict.Reason != engine.ReasonNone {
				row = logEntry(&a, jobfiles.Provisional, &res.Verdict)
			}
			row.Deferred, row.Deferral = true, jobfiles.Deferral{Due: u.due, Attempt: u.attempt, Source: u.source}
			dc.logRows = append(dc.logRows, row)
		case job.cfg.Progress.Add(a.Number, &res.Verdict):
			dc.answered++
			job.decoys.record(dc.rows.Batch[p].Address.Domain(), &res.Verdict)
			dc.logRows = append(dc.logRows, logEntry(&a, jobfiles.Final, &res.Verdict))
		}
	}
	dc.unanswered -= finished
	job.scheduler.answered(dc, finished, r.BudgetWait)
	if probed {
		job.cfg.Progress.RecordActivity(now)
	}
	if len(dc.logRows) == 0 {
		return
	}
	if err := job.cfg.Log.Add(dc.logRows); err != nil {
		job.cfg.Fail(err)
	}
}
