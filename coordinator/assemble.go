package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/prober/wire/press"
	"probity/store"
)

// windowRows bounds the rows whose records are in memory at one time, 32 bytes each. For each window those groups of the log are
// read that have rows of it: answers come roughly in the order of the rows, so that each is read two or three times.
const windowRows = 1 << 19

// assembly puts a job's answers next to its rows.
type assembly struct {
	c       *Coordinator
	job     *store.Job
	filter  Filter
	dialect csvfile.Dialect
	upload  *jobfiles.Upload
	log     answers
	inputs  []string       // what stands before each cell in input, empty for the e-mail column; nil: no input is written
	groups  []logGroup     // of the log
	damaged int            // groups of the log that cannot be read
	lacking int64          // addresses without a final answer
	answers *answersWriter // nil: none is written

	from    uint32            // first row of the window
	records []jobfiles.Record // the names of each are numbers of the whole log
	firsts  []uint32          // first row plus one of the window's rows, or zero
	earlier []twin            // duplicates in the window of rows before it, by that row
	sought  bitset            // the rows before the window that earlier names
	total   totals
	wrote   bool
	packing packing
}

// twin is a duplicate and its first row.
type twin struct{ first, row uint32 }

// totals are what the rows come to.
type totals struct {
	status  [4]int64
	reason  [64]int64
	charged int64
}

func (t *totals) add(o *totals) {
	for i := range t.status {
		t.status[i] += o.status[i]
	}
	for i := range t.reason {
		t.reason[i] += o.reason[i]
	}
	t.charged += o.charged
}

// counts are the rows of each status.
func (t *totals) counts() map[string]int64 {
	of := map[string]int64{}
	for s, n := range t.status {
		of[engine.Status(s).String()] = n
	}
	return of
}

// reasons are the rows of each reason that there are.
func (t *totals) reasons() map[string]int64 {
	of := map[string]int64{}
	for r, n := range t.reason {
		if n > 0 && engine.Reason(r) != engine.ReasonNone {
			of[engine.Reason(r).String()] = n
		}
	}
	return of
}

// openAssembly opens a job's files to read them.
func (c *Coordinator) openAssembly(j *store.Job, f Filter) (*assembly, error) {
	a := &assembly{c: c, job: j, filter: f.complete(), packing: packing{how: f.complete().Compress, zstd: c.packer}}
	err := json.Unmarshal(j.Sheet, &a.dialect)
	if err == nil {
		a.upload, err = c.openUpload(j)
	}
	if err == nil {
		a.log, err = c.openAnswers(j)
	}
	if err == nil {
		err = a.index()
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	if a.filter.Format == JSONL && !f.NoInput {
		a.inputs = inputKeys(&a.dialect, a.upload.Preamble)
	}
	return a, nil
}

func (a *assembly) close() error {
	var errs []error
	if a.upload != nil {
		errs = append(errs, a.upload.Close())
	}
	if a.log != nil {
		errs = append(errs, a.log.Close())
	}
	return errors.Join(errs...)
}

// write writes the whole result, window by window.
func (a *assembly) write(ctx context.Context, w io.Writer) error {
	if a.filter.Format != CSV && a.filter.Format != JSONL {
		return errForm
	}
	if a.filter.Format == CSV {
		head := a.dialect.AppendPreamble(nil, a.upload.Preamble, columns[:])
		if err := a.put(w, head); err != nil {
			return err
		}
	}
	for next := 0; next < len(a.upload.Frames); {
		end, rows := next, 0
		for end < len(a.upload.Frames) && (end == next || rows+int(a.upload.Frames[end].Rows) <= windowRows) {
			rows += int(a.upload.Frames[end].Rows)
			end++
		}
		if err := a.load(next, end, rows); err != nil {
			return err
		}
		if err := a.keepAnswers(); err != nil {
			return fmt.Errorf("answers file: %w", err)
		}
		if err := a.render(ctx, w, next, end); err != nil {
			return err
		}
		next = end
	}
	if !a.wrote {
		return a.put(w, nil) // even nothing is packed
	}
	return nil
}

func (a *assembly) put(w io.Writer, b []byte) error {
	packed, err := a.packing.pack(b)
	if err == nil && len(packed) > 0 {
		a.wrote = true
		_, err = w.Write(packed)
	}
	return err
}

// load fills the records of a window of frames from the log, and those of duplicates from their first rows.
func (a *assembly) load(next, end, rows int) (err error) {
	from := a.upload.Frames[next].First
	a.from = from
	if cap(a.records) < rows {
		a.records = make([]jobfiles.Record, rows)
	}
	a.records = a.records[:rows]
	clear(a.records)
	a.firsts = slices.Grow(a.firsts[:0], rows)
	for ; next < end; next++ {
		if a.firsts, err = a.upload.AppendFirsts(a.firsts, next); err != nil {
			return err
		}
	}
	a.findEarlier()
	if err := a.takeLog(); err != nil {
		return err
	}
	for i, first := range a.firsts {
		if first > from {
			a.records[i] = a.records[first-1-from]
		}
	}
	return nil
}

// findEarlier lists the duplicates whose first row is before the window.
func (a *assembly) findEarlier() {
	a.earlier = a.earlier[:0]
	for i, first := range a.firsts {
		if first != 0 && first <= a.from {
			a.earlier = append(a.earlier, twin{first - 1, a.from + uint32(i)})
		}
	}
	a.sought = nil
	if len(a.earlier) == 0 {
		return
	}
	slices.SortFunc(a.earlier, func(x, y twin) int { return cmp.Compare(x.first, y.first) })
	a.sought = newBitset(int64(a.from))
	for _, t := range a.earlier {
		a.sought.add(t.first)
	}
}

// logGroup is where a group of the log is, and the rows between which its answers lie.
type logGroup struct {
	at          int64
	first, last uint32
}

// index reads all of the log once: where the rows of each group lie, and whether it is whole.
func (a *assembly) index() error {
	answered, rows := newBitset(a.job.Rows), int64(0)
	end, err := readAnswers(a.job, a.log, func(g *jobfiles.Group) error {
		a.groups = append(a.groups, groupOf(g))
		for row, rec := range g.Answers() {
			if rec.Kind() == jobfiles.Final && answered.add(row) {
				rows++
			}
		}
		return nil
	})
	a.damaged, a.lacking = end.Damaged, a.job.Unique-rows
	return err
}

// takeLog takes what the log says of the window.
func (a *assembly) takeLog() error {
	for _, s := range a.groups {
		if !a.concerns(s) {
			continue
		}
		if err := jobfiles.ReadGroup(a.log, s.at, a.take); err != nil {
			return err
		}
	}
	return nil
}

// keepAnswers writes the answers of the window, if they are to be kept. A duplicate has none of its own.
func (a *assembly) keepAnswers() error {
	if a.answers == nil {
		return nil
	}
	for i := range a.records {
		press.Yield(i)
		if a.firsts[i] != 0 || a.records[i].Kind() == jobfiles.None {
			continue
		}
		if err := a.answers.add(a.from+uint32(i), &a.records[i]); err != nil {
			return err
		}
	}
	return nil
}

func groupOf(g *jobfiles.Group) logGroup {
	s := logGroup{at: g.At, first: math.MaxUint32}
	for row := range g.Answers() {
		s.first, s.last = min(s.first, row), max(s.last, row)
	}
	return s
}

// concerns reports that a group may have rows of the window, or first rows of its duplicates.
func (a *assembly) concerns(s logGroup) bool {
	if int(s.first) < int(a.from)+len(a.records) && s.last >= a.from {
		return true
	}
	n, _ := slices.BinarySearchFunc(a.earlier, s.first, func(t twin, row uint32) int { return cmp.Compare(t.first, row) })
	return n < len(a.earlier) && a.earlier[n].first <= s.last
}

// take takes what a group of the log says of the window.
func (a *assembly) take(g *jobfiles.Group) error {
	for row, rec := range g.Answers() {
		if err := checkRecord(a.job, row, rec); err != nil {
			return err
		}
		switch i := row - a.from; {
		case row >= a.from && int(i) < len(a.records):
			a.records[i].Replace(global(g, rec))
		case row < a.from && a.sought != nil && a.sought.has(row):
			n, _ := slices.BinarySearchFunc(a.earlier, row, func(t twin, row uint32) int { return cmp.Compare(t.first, row) })
			rec = global(g, rec)
			for ; n < len(a.earlier) && a.earlier[n].first == row; n++ {
				a.records[a.earlier[n].row-a.from].Replace(rec)
			}
		}
	}
	return nil
}

// global has a record of a group refer to its names by their numbers in the whole log.
func global(g *jobfiles.Group, rec *jobfiles.Record) *jobfiles.Record {
	refs := rec.Refs()
	for i := range refs {
		refs[i] = g.Global(refs[i])
	}
	rec.SetRefs(refs)
	return rec
}

// render writes the rows of some frames; frames are worked on side by side, and each is packed by itself.
func (a *assembly) render(ctx context.Context, w io.Writer, next, end int) error {
	fill := func(p *page) error {
		if next == end {
			return io.EOF
		}
		p.a, p.index = a, next
		next++
		return ctx.Err()
	}
	take := func(p *page) error {
		a.total.add(&p.total)
		if len(p.packed) == 0 {
			return nil
		}
		a.wrote = true
		_, err := w.Write(p.packed)
		return err
	}
	return inOrder(&a.c.spares.pages, a.c.workers, fill, (*page).make, take)
}

// told is what the file shows of a row.
type told struct {
	engine.Verdict
	refs jobfiles.Refs
	some bool // false for a row that is blank or not yet answered
}

// verdict is the answer of a row of the window as the file shows it.
func (a *assembly) verdict(r *jobfiles.Record) (told, error) {
	final := a.job.State.Finished() || a.job.State == store.JobFinalizing || a.job.State == store.JobCancelling
	switch k := r.Kind(); {
	case k == jobfiles.Final, k == jobfiles.Provisional && final && !a.job.Cancelled:
		v, err := r.Verdict()
		if err != nil {
			err = fmt.Errorf("rows log: %w: %w", errDamaged, err)
		}
		return told{v, r.Refs(), true}, err
	case !final:
		return told{}, nil
	case a.job.Cancelled:
		return told{Verdict: engine.Sure(engine.ReasonCancelled, "job/cancelled", 0, a.job.FinishedAt), some: true}, nil
	}
	return told{Verdict: engine.Sure(engine.ReasonTimeout, "job/max-hours", 0, a.job.FinishedAt), some: true}, nil
}
