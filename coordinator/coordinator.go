package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/press"
	"probity/store"
)

// Resolver finds the route of a domain: a lower-case A-label. It answers a DNS failure with a Fact; engine/dns is one.
type Resolver interface {
	Route(ctx context.Context, domain string) engine.Route
}

// Lists say what is known of an address without asking anybody; engine/lists has them.
type Lists interface {
	Flags(a engine.Address) engine.Flags
	Suggest(a engine.Address) string // did-you-mean, empty where there is none
}

// Config is all that a coordinator is given. Zero values are the defaults that are named.
type Config struct {
	Store    *store.Store
	FS       vfs.FS
	Dir      string // jobs live in a folder below it
	Resolver Resolver
	Prober   wire.Prober
	Table    *engine.Table
	Lists    Lists
	Log      *slog.Logger // default: none

	Limits   csvfile.Limits // of an upload
	Hold     time.Duration  // how long a prober may keep a chunk: 60 s
	Lookups  int            // domains resolved at one time, for each job that is split: 512
	Lately   int            // rows not answered that went out in the last 2 to 4 s, at most; default: 65,536, as many as may be asked in all
	Stored   Form           // of the result file that is made at the end: CSV, zstd
	Suppress func(engine.Address) bool

	RetainResults time.Duration // how long a job's files are kept after its end: DefaultRetained
	RetainHistory time.Duration // and its record, and those of downloads in the audit log; default: for ever

	// Press counts singles, so that other work can give way to them; default: one of its own.
	Press *press.Meter
	// OnFinish gives the parts of the commit that ends a job: its settlement.
	OnFinish func(*store.Job) []store.Part
	// Pretend answers the rows of jobs of test keys, for which no server is asked.
	Pretend func(engine.Address) engine.Verdict
}

// The bounds of the whole coordinator.
const (
	maxUploads   = 8      // received at one time
	maxRunning   = 64     // jobs that are split, sent and collected at one time
	maxHeavy     = 2      // of these, with more than lightRows rows, splitting at one time
	maxLight     = 4      // and with fewer
	lightRows    = 20_000 // what makes a job light
	maxAssembled = 8      // result files made at one time: one for each two processors, at most so many
	maxRendered  = 2      // and written in another form
	maxErased    = 1      // addresses erased
	maxPlans     = 1      // plans made
	maxWorkers   = 16     // of one piece of work, each on a processor of its own
	defaultHold  = 60 * time.Second
)

// Coordinator runs jobs and answers single requests. Its methods may be called from any goroutine.
type Coordinator struct {
	cfg      Config
	log      *slog.Logger
	table    atomic.Pointer[engine.Table]
	lists    atomic.Pointer[Lists]
	objects  jobfiles.Objects
	packer   *zstd.Encoder
	unpacker *zstd.Decoder
	workers  int

	uploads, running, heavy, light, assembling, rendering, erasing, planning chan struct{} // counting semaphores

	takingOver sync.Mutex // of files of an older program

	desk   *desk
	meters meters
	press  *press.Meter // of singles
	trust  trust

	spares spares
	whole  wholeFiles

	mu       sync.Mutex // guards all below
	runners  map[string]*runner
	watch    map[string]chan struct{} // closed when the job's state changes; only for jobs somebody waits for
	arriving map[string]bool          // uploads that are no jobs yet
	turns    map[string]*turn         // of the jobs whose files somebody works on
	start    func(id string)          // set while Run is on; called with mu held
}

// New makes a coordinator. It starts nothing.
func New(cfg Config) *Coordinator {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Hold == 0 {
		cfg.Hold = defaultHold
	}
	if cfg.RetainResults == 0 {
		cfg.RetainResults = DefaultRetained
	}
	if cfg.Press == nil {
		cfg.Press = new(press.Meter)
	}
	if cfg.Lookups == 0 {
		cfg.Lookups = 512
	}
	if cfg.Lately == 0 {
		cfg.Lately = maxAsked
	}
	if cfg.Stored == (Form{}) {
		cfg.Stored = Form{Format: CSV, Compress: Zstd}
	}
	processors := runtime.GOMAXPROCS(0) // of the machine, or of what its container may use
	workers, assembled := min(maxWorkers, processors), min(maxAssembled, max(1, processors/2))
	sem := func(n int) chan struct{} { return make(chan struct{}, n) }
	c := &Coordinator{
		cfg: cfg, log: cfg.Log, packer: newPacker(workers), unpacker: newUnpacker(workers), workers: workers,
		uploads: sem(maxUploads), running: sem(maxRunning), heavy: sem(maxHeavy), light: sem(maxLight), assembling: sem(assembled), rendering: sem(maxRendered), erasing: sem(maxErased), planning: sem(maxPlans),
		turns: map[string]*turn{},
		desk:  newDesk(cfg.Lately), press: cfg.Press, runners: map[string]*runner{}, watch: map[string]chan struct{}{}, arriving: map[string]bool{},
	}
	if cfg.FS != nil {
		c.objects = &jobfiles.Folder{FS: cfg.FS, Dir: cfg.FS.PathJoin(cfg.Dir, jobsFolder)}
	}
	c.spares.init()
	c.table.Store(cfg.Table)
	c.lists.Store(&cfg.Lists)
	return c
}

// SetTable makes a new provider table the one in force, for what is decided from now on.
func (c *Coordinator) SetTable(t *engine.Table) { c.table.Store(t) }

// SetLists makes other lists the ones in force, for addresses that are looked at from now on.
func (c *Coordinator) SetLists(l Lists) { c.lists.Store(&l) }

// known is the lists in force.
func (c *Coordinator) known() Lists { return *c.lists.Load() }

// Run runs the jobs until ctx ends or the state store fails; it returns when all its goroutines have.
// Jobs that were not finished when the process died go on where they stopped.
func (c *Coordinator) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	begin := func(id string) {
		r := c.newRunner(id)
		if r == nil {
			return // it runs already
		}
		all.Go(func() {
			defer c.endRunner(r)
			if err := r.drive(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("job cannot go on", "job", id, "error", err)
				stop(fmt.Errorf("job %s: %w", id, err))
			}
		})
	}
	all.Go(func() { c.desk.run(ctx) })
	if err := c.beginAll(ctx, begin); err != nil {
		stop(err)
	}
	all.Go(func() {
		if err := c.keepHouse(ctx); err != nil && ctx.Err() == nil {
			stop(err)
		}
	})
	<-ctx.Done()
	c.mu.Lock()
	c.start = nil
	c.mu.Unlock()
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// beginAll starts what the store has unfinished, and lets Accept start what comes.
func (c *Coordinator) beginAll(ctx context.Context, begin func(id string)) error {
	if err := c.startClock(time.Now()); err != nil {
		return err
	}
	if err := c.sweepFolders(); err != nil {
		return err
	}
	if err := c.endOldErasures(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.cfg.Store.AllJobs(func(j *store.Job) error {
		if !j.State.Finished() {
			begin(j.ID)
		}
		return nil
	})
	c.start = begin
	return err
}

// began starts a job that was accepted just now, if Run is on; else Run will.
func (c *Coordinator) began(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.start != nil {
		c.start(id)
	}
}

func (c *Coordinator) dir(id string) string {
	return c.cfg.FS.PathJoin(c.cfg.Dir, jobsFolder, id)
}

// acquire takes a place of a semaphore unless ctx ends first.
func acquire(ctx context.Context, sem chan struct{}) error {
	select {
	case sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
