package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/prober/wire"
)

// flight is one chunk under way at a prober.
type flight struct {
	l     *live
	q     *queue
	chunk chunk
	span  int // of the desk's room, in which it was sent
	epoch uint32
	rows  *chunkRows
	byRow []uint64 // row number and place, ordered
	last  int      // where the last row was found: results tend to come in the order of the batch
	left  int      // rows without a result
	had   []bool   // by place: it has its result

	held     wire.Held // as the prober told last; guarded by the desk's mutex
	returned []returned
	answered int
	landed   bool           // the desk has its room back
	moved    bool           // a part had rows that were asked
	learnt   []jobfiles.Row // from the present part, on its way to the log
}

// returned is a row that came home without an answer.
type returned struct {
	place   int
	due     time.Time
	attempt uint8
	egress  string
}

const laterPause = time.Second // before rows that came back without a due time go out again

// send takes a chunk on its way, in a goroutine that live.out counts.
func (l *live) send(p picked) {
	f := &flight{l: l, q: p.q, chunk: p.c, span: p.span, epoch: l.job.Term}
	go func() {
		defer l.out.Done()
		err := contained(f.fly)
		if err == nil {
			err = contained(f.land)
		}
		f.leaveDesk()
		if err != nil {
			l.fail(err)
		}
	}()
}

// leaveDesk frees the room of the flight's chunk, once.
func (f *flight) leaveDesk() {
	if !f.landed {
		f.landed = true
		f.l.c.desk.landed(f)
	}
}

// fly reads the chunk and has its rows asked. Its error is ours; what a prober could not do comes home as Later.
func (f *flight) fly() error {
	l := f.l
	if err := f.read(); err != nil {
		return err
	}
	f.index()
	l.c.desk.answered(f, int(f.chunk.rows)-f.left)
	if f.left == 0 || l.ctx.Err() != nil {
		f.giveBack()
		return nil
	}
	batch := &wire.Batch{
		Job: l.job.ID, Chunk: f.chunk.number, Epoch: f.epoch, Class: f.chunk.class, Egress: f.chunk.source,
		MaxAge: l.job.MaxAge, NoSMTP: l.job.NoSMTP, Short: l.c.desk.isShort(l), Steady: l.c.desk.steady(l, f.chunk.class), Started: l.job.StartedAt, Rows: f.rows.batch,
	}
	err := l.c.cfg.Prober.Verify(l.ctx, batch, l.c.cfg.Hold, f.collect)
	if err != nil && l.ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		l.c.log.Warn("prober failed; its rows are asked again", "job", l.job.ID, "chunk", f.chunk.number, "error", err)
	}
	f.giveBack()
	return nil
}

// read reads the rows of the chunk that have no answer.
func (f *flight) read() error {
	room := f.l.c.spares.buffers.get()
	defer f.l.c.spares.buffers.put(room)
	b, err := f.l.chunks.read(f.chunk, room)
	if err != nil {
		return err
	}
	if f.rows, err = unpackChunk(b, f.l.c.table.Load(), f.l.answered.has); err != nil {
		return fmt.Errorf("chunk %d: %w", f.chunk.number, err)
	}
	return nil
}

func (f *flight) index() {
	f.left = f.rows.len()
	f.had = make([]bool, f.left)
	f.byRow = make([]uint64, f.left)
	for i := range f.rows.batch {
		f.byRow[i] = uint64(f.rows.batch[i].Number)<<32 | uint64(i)
	}
	slices.Sort(f.byRow)
}

// place finds the place of a row in the batch, -1 for a row that is not in it.
func (f *flight) place(row uint32) int {
	if next := f.last + 1; next < f.rows.len() && f.rows.batch[next].Number == row {
		f.last = next
		return next
	}
	i, ok := slices.BinarySearchFunc(f.byRow, row, func(k uint64, row uint32) int { return cmp.Compare(uint32(k>>32), row) })
	if !ok {
		return -1
	}
	f.last = int(uint32(f.byRow[i]))
	return f.last
}

// collect takes a part of the answer. Results of an old epoch, of rows that were not asked, or that have one already, are dropped whole.
func (f *flight) collect(r wire.Results) {
	if r.Chunk != f.chunk.number || r.Epoch != f.epoch || r.Job != f.l.job.ID {
		return
	}
	now := time.Now()
	f.learnt = f.learnt[:0]
	done := 0
	for i := range r.Rows {
		res := &r.Rows[i]
		p := f.place(res.Row)
		if p < 0 || f.had[p] {
			continue
		}
		f.had[p] = true
		done++
		f.take(p, res, now)
	}
	f.left -= done
	f.l.c.desk.answered(f, done)
	f.l.c.desk.hold(f, r.Held)
	if f.moved {
		f.moved = false
		f.l.progress.move(now)
	}
	if len(f.learnt) == 0 {
		return
	}
	if err := f.l.log.Add(f.learnt); err != nil {
		f.l.fail(err)
	}
}

// take records one result.
func (f *flight) take(p int, res *wire.Result, now time.Time) {
	a := f.rows.ask(p)
	f.moved = f.moved || res.Outcome != wire.Later
	if res.Outcome != wire.Settled {
		r := returned{place: p, due: res.Due, attempt: max(res.Attempt, a.Attempt), egress: res.Egress}
		if res.Outcome == wire.Deferred && f.chunk.source != "" && res.Egress != f.chunk.source {
			r.attempt = res.Attempt // who asked before is gone: this was a first contact, and its waits begin anew
		}
		if r.egress == "" && res.Outcome == wire.Later {
			r.egress = f.chunk.source // who was pinned stays pinned
		}
		f.returned = append(f.returned, r)
		if res.Outcome == wire.Deferred {
			f.deferred(&a, r, res, now)
		}
		return
	}
	if !f.l.answered.add(a.Number) {
		return
	}
	f.answered++
	f.l.progress.count(res.Verdict.Reason)
	f.l.c.meters.rows[res.Verdict.Status].Add(1)
	f.learnt = append(f.learnt, a.answer(jobfiles.Final, &res.Verdict, now))
}

// deferred records that a row is asked again, and what is known of it so far.
func (f *flight) deferred(a *ask, r returned, res *wire.Result, now time.Time) {
	row := jobfiles.Row{Number: a.Number}
	if res.Verdict.Status == engine.Unknown && res.Verdict.Reason != engine.ReasonNone {
		row = a.answer(jobfiles.Provisional, &res.Verdict, now)
	}
	row.Deferred, row.Deferral = true, jobfiles.Deferral{Due: r.due, Attempt: r.attempt, Source: r.egress}
	f.learnt = append(f.learnt, row)
}

// giveBack makes every row without a result one that came home.
func (f *flight) giveBack() {
	for p := range f.had {
		if !f.had[p] {
			f.returned = append(f.returned, returned{place: p, attempt: f.rows.batch[p].Attempt, egress: f.chunk.source})
		}
	}
}
