package dispatch

import (
	"time"

	"probity/coordinator/chunks"
)

// resend returns the chunk to send again as it is, due when the first of its unfinished rows is, if that is possible;
// its answered rows are then skipped. Rows that wait for the budgets of one receiver wait together while they are most
// of their chunk: so a class of which only a few rows are answered each minute is not rewritten each minute.
func (dc *dispatchedChunk) resend(now time.Time) (c chunks.Chunk, ok bool) {
	waitTogether := dc.chunk.Class != chunks.ClassTail && 2*dc.answered < dc.rows.Len()
	c = dc.chunk
	c.Rows = uint32(len(dc.unfinished))
	for i, r := range dc.unfinished {
		a := &dc.rows.Batch[r.index]
		if r.due.After(now) && !waitTogether || r.attempt != a.Attempt || r.source != dc.chunk.Source {
			return chunks.Chunk{}, false
		}
		if i == 0 || r.due.Before(c.NotBefore) {
			c.NotBefore = r.due
		}
	}
	if least := now.Add(resendPause); dc.answered == 0 && c.NotBefore.Before(least) {
		c.NotBefore = least
	}
	return c, true
}

// budgetPause returns when the class's budget allows more, according to the prober; zero unless all unfinished rows
// wait for a budget.
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
func (dc *dispatchedChunk) resplit(now time.Time) []chunks.Pending {
	type group struct {
		due    int64
		source string
	}
	groups := map[group]int{}
	var out []chunks.Pending
	for _, r := range dc.unfinished {
		a := dc.rows.RowAt(r.index)
		a.Attempt = r.attempt
		g := group{chunks.RoundDue(now, r.due), r.source}
		i, ok := groups[g]
		if !ok {
			i = len(out)
			groups[g] = i
			out = append(out, chunks.Pending{Rows: &chunks.Builder{}, Class: dc.chunk.Class, Source: r.source,
				Due: chunks.DueTime(g.due)})
		}
		out[i].Rows.Add(&a)
		out[i].Attempt = max(out[i].Attempt, a.Attempt)
	}
	return out
}
