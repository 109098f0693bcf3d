package coordinator

import (
	"math/bits"
	"time"

	"probity/coordinator/chunks"
)

// commitReturned ends a dispatched chunk and makes chunks of its unfinished rows.
func (dc *dispatchedChunk) commitReturned() error {
	job, now := dc.job, time.Now()
	if job.ctx.Err() != nil { // the chunk file is removed anyway
		return nil
	}
	var made []chunk
	var err error
	if len(dc.unfinished) > 0 {
		if again, ok := dc.resend(now); ok {
			made = []chunk{again}
		} else {
			made, err = job.chunks.write(dc.resplit(now))
		}
	}
	dc.release()
	if err != nil {
		return err
	}
	job.chunkCount.Add(int64(len(made) - 1))
	job.c.scheduler.add(job, made)
	job.checkFinished()
	return nil
}

// resend returns the chunk to send again as it is, due when the first of its unfinished rows is, if that is possible; its answered
// rows are then skipped. Rows that wait for the budgets of one receiver wait together while they are most of their chunk: so a class
// of which only a few rows are answered each minute is not rewritten each minute.
func (dc *dispatchedChunk) resend(now time.Time) (c chunk, ok bool) {
	waitTogether := dc.chunk.class != classTail && 2*dc.answered < dc.rows.Len()
	c = dc.chunk
	c.rows = uint32(len(dc.unfinished))
	for i, r := range dc.unfinished {
		a := &dc.rows.Batch[r.index]
		if r.due.After(now) && !waitTogether || r.attempt != a.Attempt || r.source != dc.chunk.source {
			return chunk{}, false
		}
		if i == 0 || r.due.Before(c.notBefore) {
			c.notBefore = r.due
		}
	}
	if least := now.Add(resendPause); dc.answered == 0 && c.notBefore.Before(least) {
		c.notBefore = least
	}
	return c, true
}

// budgetPause returns when the class's budget allows more, according to the prober; zero unless all unfinished rows wait for a
// budget.
func (dc *dispatchedChunk) budgetPause() time.Time {
	var at time.Time
	for _, r := range dc.unfinished {
		if r.attempt != dc.rows.Batch[r.index].Attempt || r.due.IsZero() {
			return time.Time{}
		}
		if at.IsZero() || r.due.Before(at) {
			at = r.due
		}
	}
	return at
}

// resplit makes chunks of the unfinished rows, grouped by due time and egress source.
func (dc *dispatchedChunk) resplit(now time.Time) []pendingChunk {
	type group struct {
		due    int64
		source string
	}
	groups := map[group]int{}
	var out []pendingChunk
	for _, r := range dc.unfinished {
		a := dc.rows.RowAt(r.index)
		a.Attempt = r.attempt
		g := group{roundDue(now, r.due), r.source}
		i, ok := groups[g]
		if !ok {
			i = len(out)
			groups[g] = i
			b := pendingChunk{rows: &chunks.Builder{}, class: dc.chunk.class, source: r.source}
			if g.due > 0 {
				b.due = time.UnixMilli(g.due).UTC()
			}
			out = append(out, b)
		}
		out[i].rows.Add(&a)
		out[i].attempt = max(out[i].attempt, a.Attempt)
	}
	return out
}

// roundDue rounds a due time up, to Unix milliseconds, so that rows due at about the same time share a chunk: by at most an
// eighth of the wait and at most ten seconds, so that a wait for an hourly budget loses little. Zero: at once.
func roundDue(now, due time.Time) int64 {
	wait := due.Sub(now).Milliseconds()
	if due.IsZero() || wait <= 0 {
		return 0
	}
	slot := min(int64(1)<<max(0, bits.Len64(uint64(wait))-4), (10 * time.Second).Milliseconds())
	return (due.UnixMilli() + slot - 1) / slot * slot
}
