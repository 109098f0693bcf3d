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
	"probity/internal/pipeline"
	"probity/prober/wire/press"
)

// Limits of a split. The first pass over the upload skips rows above them; the next pass reads these rows again and waits for
// their domains. So a slow domain does not delay others, and its rows need no memory.
const (
	maxWaitingRows    = 64 << 10 // rows that wait for lookups
	maxWaitingDomains = 16 << 10 // domains being looked up or queued for it
	sharedRowsOfRoute = 256      // rows of a narrow route in the tail before it gets chunks of its own
	largeSplitBytes   = 24 << 20 // bytes of open chunks
	smallSplitBytes   = 4 << 20
	flushBatch        = 16                     // chunks that are written together
	answerBatch       = 2 << 10                // answers of the split that are logged together
	refillInterval    = 100 * time.Millisecond // least time between two refills of an idle scheduler
	fewWaitingRows    = 4 << 10                // a split that only waits for the domains of this many rows releases its slot
)

// splitRow is a row to verify: not blank, not a duplicate, not done.
type splitRow struct {
	number     uint32
	invalid    bool   // does not parse
	suggestion string // if invalid: the address that was probably meant
	flags      engine.Flags
	addr       engine.Address
}

// splitFrame is a frame that is being split.
type splitFrame struct {
	index   int
	fr      jobfiles.FrameReader
	firstOf []uint32
	rows    []splitRow
}

func (f *splitFrame) clearForReuse() bool {
	clear(f.rows[:cap(f.rows)]) // they refer to the list's text
	f.rows = f.rows[:0]
	return f.fr.Small()
}

// splitter turns a job's upload into answers that need no prober, and chunks of the rows that do.
type splitter struct {
	job            *runningJob
	policy         engine.Policy
	domains        *domains
	openChunks     map[openChunkKey]*openChunk
	routes         map[string]int // rows seen of a narrow route; bounded: after a reset its own chunks only come later
	openBytes      int            // of openChunks
	maxBytes       int
	flushed        []pendingChunk
	answers        []jobfiles.Row // answers not yet in the log
	waitingRows    int
	lastRefill     time.Time // last refill of the scheduler
	rowsSkipped    bool      // this pass skipped rows
	waitForDomains bool      // wait for domains instead of skipping rows
	allRead        bool      // every row was read; only lookups are pending
	releaseSlot    func()    // lets another split start; idempotent
}

// splitUpload splits the job's upload, without the rows that are done.
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

// splitFrames makes one pass over the upload; frames are read and parsed in parallel.
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
	return pipeline.Run(&s.job.c.pools.frames, s.job.c.workers, fill, s.readFrame, s.addFrame)
}

// readFrame finds the rows of a frame that must be verified.
func (s *splitter) readFrame(f *splitFrame) (err error) {
	job := s.job
	first := job.upload.Frames[f.index].First
	if err := f.fr.Read(job.upload, &job.dialect, f.index); err != nil {
		return err
	}
	if f.firstOf, err = job.upload.AppendFirstRows(f.firstOf[:0], f.index); err != nil {
		return err
	}
	f.rows = slices.Grow(f.rows[:0], len(f.fr.Block.Rows))
	for i := range f.fr.Block.Rows {
		press.Yield(i)
		n := first + uint32(i)
		if f.fr.Block.Rows[i].Blank || f.firstOf[i] != 0 || job.answered.Has(n) || job.chunked.Has(n) {
			continue
		}
		f.rows = append(f.rows, job.readRow(n, f.fr.Block.Email(i)))
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
			s.job.chunked.Add(r.number)
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

// routeResolved routes the rows of domains that are resolved now. If wait is set, it waits up to refillInterval for the first one.
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

// finish waits for the last domains and flushes the rest. A name server that does not answer takes seconds; few rows wait
// then, so other jobs are split meanwhile.
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
