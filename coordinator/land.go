package coordinator

import (
	"math/bits"
	"time"
)

// land ends the chunk of a flight, and makes chunks of the rows that came back.
func (f *flight) land() error {
	l, now := f.l, time.Now()
	if l.ctx.Err() != nil { // the chunks go with the work
		return nil
	}
	var made []chunk
	var err error
	if f.unchanged(now) {
		made = []chunk{f.again(now)}
	} else if batches := f.recut(now); len(batches) > 0 {
		room := l.c.spares.buffers.get()
		made, err = l.chunks.write(batches, room)
		l.c.spares.buffers.put(room)
	}
	f.leaveDesk()
	if err != nil {
		return err
	}
	l.alive.Add(int64(len(made) - 1))
	l.c.desk.add(l, made)
	l.checkFinished()
	return nil
}

// unasked is how many rows still count as asked at the desk.
func (f *flight) unasked() int {
	if f.rows == nil {
		return int(f.chunk.rows)
	}
	return f.left
}

// unchanged reports that all unfinished rows may go out again together as they are: then the chunk itself lives on, and its
// answered rows are passed over. Rows that wait for the budgets of one receiver do so together while they are most of their
// chunk: so a class of which each minute takes a few is not written anew each minute.
func (f *flight) unchanged(now time.Time) bool {
	if len(f.returned) == 0 {
		return false
	}
	together := f.chunk.class != classTail && 2*f.answered < f.rows.len()
	for _, r := range f.returned {
		a := &f.rows.batch[r.place]
		if r.due.After(now) && !together || r.attempt != a.Attempt || r.egress != f.chunk.source {
			return false
		}
	}
	return true
}

// again is the chunk of a flight that is unchanged: due when the first of its rows is.
func (f *flight) again(now time.Time) chunk {
	c, due := f.chunk, f.returned[0].due
	for _, r := range f.returned {
		if r.due.Before(due) {
			due = r.due
		}
	}
	if least := now.Add(laterPause); f.answered == 0 && due.Before(least) {
		due = least
	}
	c.rows, c.notBefore = uint32(len(f.returned)), due
	return c
}

// pause is when the prober says that the class's budget allows more; zero if it did not say so of all that came home.
func (f *flight) pause() time.Time {
	var at time.Time
	for _, r := range f.returned {
		if r.attempt != f.rows.batch[r.place].Attempt || r.due.IsZero() {
			return time.Time{}
		}
		if at.IsZero() || r.due.Before(at) {
			at = r.due
		}
	}
	return at
}

// recut makes chunks of the rows that came home, grouped by due time and identity.
func (f *flight) recut(now time.Time) []batchOf {
	type group struct {
		due    int64
		egress string
	}
	groups := map[group]int{}
	var out []batchOf
	for _, r := range f.returned {
		a := f.rows.ask(r.place)
		a.Attempt = r.attempt
		g := group{dueSlot(now, r.due), r.egress}
		i, ok := groups[g]
		if !ok {
			i = len(out)
			groups[g] = i
			b := batchOf{rows: &packer{}, class: f.chunk.class, source: r.egress}
			if g.due > 0 {
				b.due = time.UnixMilli(g.due).UTC()
			}
			out = append(out, b)
		}
		out[i].rows.add(&a)
		out[i].attempt = max(out[i].attempt, a.Attempt)
	}
	return out
}

// dueSlot rounds a due time up so that rows due at about one time share a chunk: by at most an eighth of the wait,
// and never by more than ten seconds: who waits for an hour's budget loses no more of each hour. Zero: at once.
func dueSlot(now, due time.Time) int64 {
	wait := due.Sub(now).Milliseconds()
	if due.IsZero() || wait <= 0 {
		return 0
	}
	slot := min(int64(1)<<max(0, bits.Len64(uint64(wait))-4), (10 * time.Second).Milliseconds())
	return (due.UnixMilli() + slot - 1) / slot * slot
}
