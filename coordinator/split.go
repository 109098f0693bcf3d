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

// The bounds of a split. Rows over them are not lost: they are left for the next pass over the upload, which waits where
// the first passed by. So a slow domain holds up no other, and what it holds is on disk already, in the upload.
const (
	maxWaitingRows    = 64 << 10 // rows kept for domains that are being looked up
	maxWaitingDomains = 16 << 10 // domains being looked up or in line for it
	sharedRowsOfRoute = 256      // rows of a narrow route in this job before it gets chunks of its own
	largeSplitBytes   = 24 << 20 // bytes of rows that are not flushed yet
	smallSplitBytes   = 4 << 20
	flushBatch        = 16                     // chunks that are written together
	answerBatch       = 2 << 10                // answers of the split that go to the log together
	refillInterval    = 100 * time.Millisecond // least time between two refills of an idle scheduler
	fewWaitingRows    = 4 << 10                // rows with which a split that only waits for their domains makes room for another
)

// splitRow is a row that is neither blank, a duplicate, nor done.
type splitRow struct {
	number     uint32
	invalid    bool   // does not parse
	suggestion string // of a bad one: the address that it may mean
	flags      engine.Flags
	addr       engine.Address
}

// splitFrame is a frame on its way through the split.
type splitFrame struct {
	index   int
	fr      frameReader
	firstOf []uint32
	rows    []splitRow
}

func (f *splitFrame) clearForReuse() bool {
	clear(f.rows[:cap(f.rows)]) // their addresses are text of the list
	f.rows = f.rows[:0]
	return f.fr.small()
}

// splitter cuts a job's upload into answers that need no prober and chunks for those that do.
type splitter struct {
	job            *runningJob
	policy         engine.Policy
	domains        *domains
	openChunks     map[openChunkKey]*openChunk
	routes         map[string]int // rows seen of a narrow route; bounded, forgetting only delays its own chunks
	openBytes      int            // in open
	maxBytes       int
	flushed        []pendingChunk
	answers        []jobfiles.Row // answers not yet in the log
	waitingRows    int
	lastRefill     time.Time // last refill of the scheduler
	rowsSkipped    bool      // rows were passed by
	waitForDomains bool      // wait instead
	allRead        bool      // every row was read: what is being looked up is all that comes
	releaseSlot    func()    // for another split; may be called again
}

// splitUpload splits the job's upload, or what is left of it.
func (job *runningJob) splitUpload() error {
	sem, budget := job.c.largeSplitSlots, largeSplitBytes
	if job.record.Rows < smallJobRows {
		sem, budget = job.c.smallSplitSlots, smallSplitBytes
	}
	if err := acquire(job.ctx, sem); err != nil {
		return err
	}
	releaseSlot := sync.OnceFunc(func() { <-sem })
	defer releaseSlot()
	ctx, stop := context.WithCancel(job.ctx)
	s := &splitter{
		job: job, domains: newDomains(ctx, job.c.cfg.Resolver, job.c.cfg.Lookups), openChunks: map[openChunkKey]*openChunk{}, routes: map[string]int{},
		maxBytes: budget, releaseSlot: releaseSlot, policy: engine.Policy{Schedule: job.c.table.Load().Schedule},
	}
	defer s.domains.close()
	defer stop()
	for {
		s.rowsSkipped = false
		if err := s.splitFrames(); err != nil {
			return err
		}
		if !s.rowsSkipped {
			break
		}
		s.waitForDomains = true
	}
	return s.finish()
}

// splitFrames goes over the upload once; reading and parsing run side by side.
func (s *splitter) splitFrames() error {
	next := 0
	fill := func(f *splitFrame) error {
		if next == len(s.job.upload.Frames) {
			return io.EOF
		}
		f.index = next
		next++
		return s.job.ctx.Err()
	}
	return inOrder(&s.job.c.pools.frames, s.job.c.workers, fill, s.readFrame, s.addFrame)
}

// readFrame finds the rows of a frame that are still to do.
func (s *splitter) readFrame(f *splitFrame) (err error) {
	job := s.job
	first := job.upload.Frames[f.index].First
	if err := f.fr.read(job.upload, &job.dialect, f.index); err != nil {
		return err
	}
	if f.firstOf, err = job.upload.AppendFirstRows(f.firstOf[:0], f.index); err != nil {
		return err
	}
	f.rows = slices.Grow(f.rows[:0], len(f.fr.block.Rows))
	for i := range f.fr.block.Rows {
		press.Yield(i)
		n := first + uint32(i)
		if f.fr.block.Rows[i].Blank || f.firstOf[i] != 0 || job.answered.has(n) || job.chunked.has(n) {
			continue
		}
		f.rows = append(f.rows, job.readRow(n, f.fr.block.Email(i)))
	}
	return nil
}

func (job *runningJob) readRow(n uint32, mail []byte) splitRow {
	text := string(mail)
	a, err := engine.ParseTrimmed(text)
	if err != nil {
		guess, _ := engine.Guess(text)
		return splitRow{number: n, invalid: true, suggestion: guess}
	}
	return splitRow{number: n, addr: a, flags: job.c.currentLists().Flags(a)}
}

func (s *splitter) addFrame(f *splitFrame) error {
	for i := range f.rows {
		press.Yield(i)
		if err := s.addRow(f.rows[i]); err != nil {
			return err
		}
	}
	if err := s.routeResolved(false); err != nil {
		return err
	}
	return s.job.ctx.Err()
}

func (s *splitter) addRow(r splitRow) error {
	if r.invalid || s.job.record.Test || s.suppressed(r.addr) {
		return s.answerUnrouted(r)
	}
	for drained := false; ; {
		d := s.domains.get(r.addr.Domain())
		switch {
		case d != nil && d.resolved:
			return s.routeRow(r, d)
		case d != nil && s.waitingRows < maxWaitingRows || d == nil && s.domains.open() < maxWaitingDomains && s.waitingRows < maxWaitingRows:
			if d == nil {
				d = s.domains.startLookup(r.addr.Domain())
			}
			s.job.chunked.add(r.number)
			s.domains.unresolved.addRow(d, r)
			s.waitingRows++
			return nil
		case !s.waitForDomains && drained:
			s.rowsSkipped = true
			return nil
		}
		if err := s.routeResolved(s.waitForDomains); err != nil {
			return err
		}
		drained = true
	}
}

// routeResolved places the rows of domains whose route is known now; when wait is set, it gives them a moment to become so.
func (s *splitter) routeResolved(wait bool) error {
	patience := time.Duration(0)
	if wait {
		patience = refillInterval
	}
	for {
		d, err := s.domains.next(patience)
		if patience > 0 || d == nil {
			s.job.unresolvedRows.Store(s.domains.unresolved.rows)
		}
		if err != nil || d == nil {
			return errors.Join(err, s.refill())
		}
		patience = 0
		rows := d.waitingRows
		d.waitingRows = nil
		s.waitingRows -= len(rows)
		for _, r := range rows {
			if err := s.routeRow(r, d); err != nil {
				return err
			}
		}
	}
}

// finish waits for the last domains, and flushes what is left. A server that does not answer takes
// seconds, in which little is held: other jobs are split meanwhile.
func (s *splitter) finish() error {
	s.domains.forget()
	s.allRead = true
	for left := false; s.domains.open() > 0; {
		if !left && s.waitingRows <= fewWaitingRows {
			if err := s.flushAll(); err != nil {
				return err
			}
			left = true
			s.releaseSlot()
		}
		if err := s.routeResolved(true); err != nil {
			return err
		}
	}
	if err := s.flushAll(); err != nil {
		return err
	}
	s.job.unresolvedRows.Store(0)
	s.job.deferred = nil
	s.job.splitDone.Store(true)
	s.job.checkFinished()
	return nil
}
