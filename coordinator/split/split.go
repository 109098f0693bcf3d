package split

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"probity/coordinator/chunks"
	"probity/coordinator/csvfile"
	"probity/coordinator/details"
	"probity/coordinator/dispatch"
	"probity/coordinator/fleet"
	"probity/coordinator/jobfiles"
	"probity/coordinator/progress"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire"
	"probity/prober/wire/press"
	"probity/store"
)

// Limits of a split. The first pass over the upload skips rows above them; the next pass reads these rows again and
// waits for their domains. So a slow domain does not delay others, and its rows need no memory.
const (
	maxWaitingRows    = 64 << 10 // rows that wait for lookups
	maxWaitingDomains = 16 << 10 // domains being looked up or queued for it
	largeSplitBytes   = 24 << 20 // bytes of open chunks
	smallSplitBytes   = 4 << 20
	answerBatch       = 2 << 10                // answers of the split that are logged together
	refillInterval    = 100 * time.Millisecond // least time between two refills of an idle scheduler
	// a split that only waits for the domains of this many rows releases its slot
	fewWaitingRows = 4 << 10

	maxLarge     = 2      // jobs with more than smallJobRows rows that are split at one time
	maxSmall     = 4      // jobs with fewer
	smallJobRows = 20_000 // most rows of a small job
)

// Resolver finds the route of a domain, given in lower-case A-labels. A DNS failure is a Fact; engine/dns is one.
type Resolver interface {
	Route(ctx context.Context, domain string) engine.Route
	CachedRoute(domain string) (engine.Route, bool) // what Route returns, if that takes no lookup
}

// CachedFlags returns the flags of an address that is not looked up, from what earlier lookups left in the resolver's
// cache.
func CachedFlags(r Resolver, a engine.Address) engine.Flags {
	if route, ok := r.CachedRoute(a.Domain()); ok && route.Fact == engine.FactNoDomain {
		return engine.FlagNoDomain
	}
	return 0
}

// Config configures a Splitter.
type Config struct {
	Resolver Resolver
	Lookups  int // concurrent DNS lookups of each job
	Workers  int // of each job
	Table    func() *engine.Table
	Flags    func(engine.Address) engine.Flags
	Suggest  func(engine.Address) string // did-you-mean, empty where there is none
	Suppress func(engine.Address) bool   // the address is never probed
	// TestVerdict answers the rows of jobs of test keys, which are never probed.
	TestVerdict func(engine.Address) engine.Verdict
}

// Splitter splits jobs. Its methods may be called from any goroutine.
type Splitter struct {
	cfg          Config
	large, small chan struct{} // counting semaphores
	frames       pipeline.Pool[splitFrame]
	blocks       pipeline.Pool[chunks.Block]
}

// New makes a Splitter.
func New(cfg Config) *Splitter {
	s := &Splitter{cfg: cfg, large: make(chan struct{}, maxLarge), small: make(chan struct{}, maxSmall)}
	s.frames.Reset = (*splitFrame).clearForReuse
	return s
}

// Job is what a Splitter needs of a running job.
type Job struct {
	Record   *store.Job
	Upload   *jobfiles.Upload
	Dialect  *csvfile.Dialect
	Log      *jobfiles.RowsLog
	File     *chunks.File
	Progress *progress.Job
	Deferred *Deferred     // rows that were deferred before this start
	Chunks   *dispatch.Job // gets the chunks
}

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

// jobSplit turns a job's upload into answers that need no prober, and chunks of the rows that do.
type jobSplit struct {
	*Splitter
	job         Job
	ctx         context.Context
	policy      engine.Policy
	chunked     jobfiles.RowSet // in a chunk, or soon
	domains     *domains
	openChunks  map[openChunkKey]*openChunk
	routes      map[string]int // rows seen of a narrow route; bounded: after a reset its own chunks only come later
	openBytes   int            // of openChunks
	maxBytes    int
	answers     []jobfiles.Row // answers not yet in the log
	waitingRows int
	lastRefill  time.Time     // last refill of the scheduler
	rowsSkipped bool          // this pass skipped rows
	patience    time.Duration // with domains that are not looked up; rows are skipped where it is 0
	allRead     bool          // every row was read; only lookups are pending
}

// Split splits the job's upload, without the rows that are done.
func (sp *Splitter) Split(jobCtx context.Context, job Job) error {
	slots, maxBytes := sp.large, largeSplitBytes
	if job.Record.Rows < smallJobRows {
		slots, maxBytes = sp.small, smallSplitBytes
	}
	if err := pipeline.Acquire(jobCtx, slots); err != nil {
		return err
	}
	releaseSlot := sync.OnceFunc(func() { <-slots }) // lets another split start
	defer releaseSlot()
	ctx, stop := context.WithCancel(jobCtx)
	s := &jobSplit{
		Splitter: sp, job: job, ctx: jobCtx, chunked: jobfiles.NewRowSet(job.Record.Rows),
		openChunks: map[openChunkKey]*openChunk{}, routes: map[string]int{}, maxBytes: maxBytes,
		policy: engine.Policy{Schedule: sp.cfg.Table().Schedule},
		domains: &domains{
			ctx: ctx, resolver: sp.cfg.Resolver, lookups: sp.cfg.Lookups, recent: map[string]*domain{},
			older:       map[string]*domain{},
			lookupQueue: make(chan *domain, maxWaitingDomains), results: make(chan *domain, maxWaitingDomains),
		},
	}
	defer func() {
		stop()
		close(s.domains.lookupQueue)
		s.domains.all.Wait()
	}()
	for {
		s.rowsSkipped = false
		fill := pipeline.Indexes(jobCtx, len(job.Upload.Frames), func(f *splitFrame, i int) { f.index = i })
		if err := pipeline.Run(&sp.frames, sp.cfg.Workers, fill, s.readFrame, s.addFrame); err != nil {
			return err
		}
		if !s.rowsSkipped {
			break
		}
		s.patience = refillInterval
	}
	// The last domains. A name server that does not answer takes seconds; few rows wait then, so other jobs are split
	// meanwhile.
	s.domains.recent, s.domains.older, s.allRead = nil, nil, true
	for released := false; s.domains.pending > 0; {
		if !released && s.waitingRows <= fewWaitingRows {
			if err := s.flushAll(); err != nil {
				return err
			}
			released = true
			releaseSlot()
		}
		if err := s.routeResolved(refillInterval); err != nil {
			return err
		}
	}
	if err := s.flushAll(); err != nil {
		return err
	}
	job.Progress.Unresolved.Store(0)
	job.Chunks.SplitDone()
	return nil
}

// readFrame finds the rows of a frame that must be verified.
func (s *jobSplit) readFrame(f *splitFrame) (err error) {
	job := &s.job
	first := job.Upload.Frames[f.index].First
	if err := f.fr.Read(job.Upload, job.Dialect, f.index); err != nil {
		return err
	}
	if f.firstOf, err = job.Upload.AppendFirstRows(f.firstOf[:0], f.index); err != nil {
		return err
	}
	f.rows = slices.Grow(f.rows[:0], len(f.fr.Block.Rows))
	for i := range f.fr.Block.Rows {
		press.Yield(i)
		r := splitRow{number: first + uint32(i)}
		if f.fr.Block.Rows[i].Blank || f.firstOf[i] != 0 || job.Progress.Answered.Has(r.number) ||
			s.chunked.Has(r.number) {
			continue
		}
		text := string(f.fr.Block.Email(i))
		if r.addr, err = engine.ParseTrimmed(text); err != nil {
			r.invalid = true
			r.suggestion, _ = engine.Guess(text)
		} else {
			r.flags = s.cfg.Flags(r.addr)
		}
		f.rows = append(f.rows, r)
	}
	return nil
}

func (s *jobSplit) addFrame(f *splitFrame) error {
	for i := range f.rows {
		press.Yield(i)
		if err := s.addRow(f.rows[i]); err != nil {
			return err
		}
	}
	if err := s.routeResolved(0); err != nil {
		return err
	}
	return s.ctx.Err()
}

// addRow routes a row once the route of its domain is known. A row that needs no route is answered: bad syntax, a test
// key, or a suppressed address.
func (s *jobSplit) addRow(r splitRow) error {
	if r.invalid || s.job.Record.Test || s.cfg.Suppress(r.addr) {
		now := time.Now()
		a := chunks.Row{Number: r.number, Flags: r.flags, Suggestion: r.suggestion}
		var v engine.Verdict
		switch {
		case r.invalid:
			v = engine.Judge(&engine.Evidence{SyntaxBad: true}, s.policy, now)
		case s.job.Record.Test && s.cfg.TestVerdict != nil:
			v = s.cfg.TestVerdict(r.addr)
			a.Flags |= v.Flags
		default:
			a.Flags |= CachedFlags(s.cfg.Resolver, r.addr)
			v = engine.VerdictFor(engine.ReasonSMTPNotChecked, fleet.RuleSuppressed, a.Flags, now)
		}
		return s.answerRow(&a, &v, now)
	}
	all := s.domains
	for drained := false; ; {
		d := all.get(r.addr.Domain())
		switch {
		case d != nil && d.resolved:
			return s.routeRow(r, d)
		case s.waitingRows < maxWaitingRows && (d != nil || all.pending < maxWaitingDomains):
			if d == nil {
				d = &domain{name: strings.Clone(r.addr.Domain())}
				all.remember(d)
				all.pending++
				all.lookupQueue <- d // it has room: pending is below maxWaitingDomains
				if all.workers < all.lookups && all.workers < all.pending {
					all.workers++
					all.all.Go(all.runLookups)
				}
			}
			s.chunked.Add(r.number)
			all.unresolved.addRow(d, r)
			s.waitingRows++
			return nil
		case s.patience == 0 && drained:
			s.rowsSkipped = true
			return nil
		}
		if err := s.routeResolved(s.patience); err != nil {
			return err
		}
		drained = true
	}
}

// routeResolved routes the rows of domains that are resolved now. It waits for the first one as long as its patience
// lasts. Then it flushes the rows that an idle scheduler can use, at most once per refillInterval.
func (s *jobSplit) routeResolved(patience time.Duration) error {
	var err error
	for {
		var d *domain
		d, err = s.domains.next(patience)
		if patience > 0 || d == nil {
			s.job.Progress.Unresolved.Store(s.domains.unresolved.rows)
		}
		if err != nil || d == nil {
			break
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
	now := time.Now()
	if !s.job.Chunks.WantsMore() || now.Sub(s.lastRefill) < refillInterval {
		return err
	}
	s.lastRefill = now
	if s.allRead {
		return errors.Join(err, s.flushAll())
	}
	has, idle := s.job.Chunks.Backlogs()
	for k, oc := range s.openChunks {
		if !oc.isDue(has[k.class], idle, s.job.Chunks.ChunkRows(k.class), now) {
			continue
		}
		if failed := s.flushChunk(k); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return errors.Join(err, s.logAnswers())
}

// classOf is the class of the rows of a route: its provider if many sources share it, the route itself once it has many
// rows in this job, else the tail. It counts the rows of routes.
func (s *jobSplit) classOf(route *engine.Route) string {
	if route.Provider != nil && route.Provider.Shared() {
		return route.Provider.ID
	}
	if len(s.routes) >= maxKnownRoutes {
		clear(s.routes)
	}
	s.routes[route.Key]++
	if s.routes[route.Key] <= chunks.MaxTailRows {
		return chunks.ClassTail
	}
	return route.Key[:min(len(route.Key), store.MaxName)]
}

// routeRow answers a row whose route is known, or adds it to the open chunk of its class, source and due time if it
// needs SMTP.
func (s *jobSplit) routeRow(r splitRow, d *domain) error {
	ev := engine.Evidence{Address: r.addr, Flags: r.flags, Route: &d.route.Route}
	a := chunks.Row{Number: r.number, Flags: r.flags, Route: &d.route}
	if !d.noSuggestion {
		a.Suggestion = s.cfg.Suggest(r.addr)
		d.noSuggestion = a.Suggestion == ""
	}
	now := time.Now()
	if engine.Next(&ev, s.policy).Kind != engine.StepAsk {
		v := engine.Judge(&ev, s.policy, now)
		v.FromCache = v.VerifiedAt.Before(s.job.Record.StartedAt)
		return s.answerRow(&a, &v, now)
	}
	s.chunked.Add(r.number)
	a.Mailbox = r.addr.Mailbox()
	deferral := s.job.Deferred.get(a.Number)
	a.Attempt = deferral.Attempt
	k := openChunkKey{class: s.classOf(&d.route.Route), source: deferral.Source,
		due: chunks.RoundDue(now, deferral.Due)}
	p := s.openChunks[k]
	if p == nil {
		p = &openChunk{Builder: chunks.Builder{Pool: &s.blocks}, since: now}
		s.openChunks[k] = p
	}
	p.attempt = max(p.attempt, a.Attempt)
	before := p.Size()
	p.Add(&a)
	s.openBytes += p.Size() - before
	if p.Len() >= chunks.MaxRows || p.Len() >= wire.MaxRows && !p.ManyHosts() &&
		p.Len() >= s.job.Chunks.ChunkRows(k.class) {
		return s.flushChunk(k)
	}
	if s.openBytes > s.maxBytes {
		return s.flushLargest()
	}
	return nil
}

// flushLargest flushes the largest open chunks, until the others have three quarters of the bytes that they may.
func (s *jobSplit) flushLargest() error {
	for s.openBytes > s.maxBytes*3/4 {
		var largest openChunkKey
		most := -1
		for k, oc := range s.openChunks {
			if n := oc.Size(); n > most {
				largest, most = k, n
			}
		}
		if err := s.flushChunk(largest); err != nil {
			return err
		}
	}
	return nil
}

func (s *jobSplit) answerRow(a *chunks.Row, v *engine.Verdict, now time.Time) error {
	if !s.job.Progress.Add(a.Number, v) {
		return nil
	}
	entry := a.LogEntry(jobfiles.Final, v, now)
	if s.job.Record.Details {
		entry.Details = string(details.Pack(nil, v, "", now))
	}
	s.answers = append(s.answers, entry)
	if len(s.answers) >= answerBatch {
		return s.logAnswers()
	}
	return nil
}

func (s *jobSplit) logAnswers() error {
	err := s.job.Log.Add(s.answers)
	clear(s.answers)
	s.answers = s.answers[:0]
	return err
}
