package coordinator

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/prober/wire/press"
)

// The bounds of a split. Rows over them are not lost: they are left for the next pass over the sheet, which waits where
// the first passed by. So a slow domain holds up no other, and what it holds is on disk already, in the upload.
const (
	waitingRows    = 64 << 10 // rows kept for domains that are being looked up
	waitingDomains = 16 << 10 // domains being looked up or in line for it
	ownBuffer      = 256      // rows of a narrow route in this job before it gets chunks of its own
	openHeavy      = 24 << 20 // bytes of rows that are not sealed yet
	openLight      = 4 << 20
	sealTogether   = 16                     // chunks that are written together
	settleRows     = 2 << 10                // answers of the split that go to the log together
	flushWait      = 100 * time.Millisecond // least time between two meals of a hungry desk
	fewWaiting     = 4 << 10                // rows with which a split that only waits for their domains makes room for another
)

// splitRow is a row that is neither blank, a duplicate, nor done.
type splitRow struct {
	number uint32
	bad    bool   // does not parse
	inside string // of a bad one: the address that it may mean
	flags  engine.Flags
	addr   engine.Address
}

// splitFrame is a frame on its way through the split.
type splitFrame struct {
	index  int
	fr     frameReader
	firsts []uint32
	rows   []splitRow
}

func (f *splitFrame) clean() bool {
	clear(f.rows[:cap(f.rows)]) // their addresses are text of the list
	f.rows = f.rows[:0]
	return f.fr.small()
}

// splitter cuts a job's sheet into answers that need no prober and chunks for those that do.
type splitter struct {
	l        *live
	policy   engine.Policy
	domains  *domains
	open     map[gatherKey]*gathered
	routes   map[string]int // rows seen of a narrow route; bounded, forgetting only delays its own chunks
	bytes    int            // in open
	maxBytes int
	sealed   []batchOf
	settled  []jobfiles.Row // answers not yet in the log
	waiting  int
	fed      time.Time // when the desk was, if it was hungry
	again    bool      // rows were passed by
	patient  bool      // wait instead
	ending   bool      // every row was read: what is being looked up is all that comes
	makeRoom func()    // for another split; may be called again
}

// splitSheet splits the job's sheet, or what is left of it.
func (l *live) splitSheet() error {
	sem, budget := l.c.heavy, openHeavy
	if l.job.Rows < lightRows {
		sem, budget = l.c.light, openLight
	}
	if err := acquire(l.ctx, sem); err != nil {
		return err
	}
	makeRoom := sync.OnceFunc(func() { <-sem })
	defer makeRoom()
	ctx, stop := context.WithCancel(l.ctx)
	s := &splitter{
		l: l, domains: newDomains(ctx, l.c.cfg.Resolver, l.c.cfg.Lookups), open: map[gatherKey]*gathered{}, routes: map[string]int{},
		maxBytes: budget, makeRoom: makeRoom, policy: engine.Policy{Schedule: l.c.table.Load().Schedule},
	}
	defer s.domains.close()
	defer stop()
	for {
		s.again = false
		if err := s.pass(); err != nil {
			return err
		}
		if !s.again {
			break
		}
		s.patient = true
	}
	return s.end()
}

// pass goes over the sheet once; reading and parsing run side by side.
func (s *splitter) pass() error {
	next := 0
	fill := func(f *splitFrame) error {
		if next == len(s.l.upload.Frames) {
			return io.EOF
		}
		f.index = next
		next++
		return s.l.ctx.Err()
	}
	return inOrder(&s.l.c.spares.frames, s.l.c.workers, fill, s.readFrame, s.takeFrame)
}

// readFrame finds the rows of a frame that are still to do.
func (s *splitter) readFrame(f *splitFrame) (err error) {
	l := s.l
	first := l.upload.Frames[f.index].First
	if err := f.fr.read(l.upload, &l.dialect, f.index); err != nil {
		return err
	}
	if f.firsts, err = l.upload.AppendFirsts(f.firsts[:0], f.index); err != nil {
		return err
	}
	f.rows = slices.Grow(f.rows[:0], len(f.fr.block.Rows))
	for i := range f.fr.block.Rows {
		press.Yield(i)
		n := first + uint32(i)
		if f.fr.block.Rows[i].Blank || f.firsts[i] != 0 || l.answered.has(n) || l.taken.has(n) {
			continue
		}
		f.rows = append(f.rows, l.readRow(n, f.fr.block.Mail(i)))
	}
	return nil
}

func (l *live) readRow(n uint32, mail []byte) splitRow {
	text := string(mail)
	a, err := engine.ParseTrimmed(text)
	if err != nil {
		guess, _ := engine.Guess(text)
		return splitRow{number: n, bad: true, inside: guess}
	}
	return splitRow{number: n, addr: a, flags: l.c.known().Flags(a)}
}

func (s *splitter) takeFrame(f *splitFrame) error {
	for i := range f.rows {
		press.Yield(i)
		if err := s.takeRow(f.rows[i]); err != nil {
			return err
		}
	}
	if err := s.takeResolved(false); err != nil {
		return err
	}
	return s.l.ctx.Err()
}

func (s *splitter) takeRow(r splitRow) error {
	if r.bad || s.l.job.Test || s.suppressed(r.addr) {
		return s.settleUnrouted(r)
	}
	for drained := false; ; {
		d := s.domains.get(r.addr.Domain())
		switch {
		case d != nil && d.ready:
			return s.place(r, d)
		case d != nil && s.waiting < waitingRows || d == nil && s.domains.open() < waitingDomains && s.waiting < waitingRows:
			if d == nil {
				d = s.domains.ask(r.addr.Domain())
			}
			s.l.taken.add(r.number)
			s.domains.doubts.add(d, r)
			s.waiting++
			return nil
		case !s.patient && drained:
			s.again = true
			return nil
		}
		if err := s.takeResolved(s.patient); err != nil {
			return err
		}
		drained = true
	}
}

// takeResolved places the rows of domains whose route is known now; when wait is set, it gives them a moment to become so.
func (s *splitter) takeResolved(wait bool) error {
	patience := time.Duration(0)
	if wait {
		patience = flushWait
	}
	for {
		d, err := s.domains.next(patience)
		if patience > 0 || d == nil {
			s.l.unseen.Store(s.domains.doubts.rows)
		}
		if err != nil || d == nil {
			return errors.Join(err, s.feed())
		}
		patience = 0
		rows := d.rows
		d.rows = nil
		s.waiting -= len(rows)
		for _, r := range rows {
			if err := s.place(r, d); err != nil {
				return err
			}
		}
	}
}

// end waits for the last domains, and seals what is left. A server that does not answer takes
// seconds, in which little is held: other jobs are split meanwhile.
func (s *splitter) end() error {
	s.domains.noMore()
	s.ending = true
	for left := false; s.domains.open() > 0; {
		if !left && s.waiting <= fewWaiting {
			if err := s.flush(); err != nil {
				return err
			}
			left = true
			s.makeRoom()
		}
		if err := s.takeResolved(true); err != nil {
			return err
		}
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.l.unseen.Store(0)
	s.l.deferred = nil
	s.l.split.Store(true)
	s.l.checkFinished()
	return nil
}
