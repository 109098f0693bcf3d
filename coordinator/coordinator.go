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

	"probity/coordinator/sheet"
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

	Limits   sheet.Limits  // of an upload
	Hold     time.Duration // how long a prober may keep a chunk: 60 s
	Lookups  int           // domains resolved at one time, for each job that is split: 512
	Lately   int           // rows not answered that went out in the last 2 to 4 s, at most; default: 65,536, as many as may be asked in all
	Stored   Form          // of the result file that is made at the end: CSV, zstd
	Suppress func(engine.Address) bool
	// Press counts singles, for whoever is to give way to them; default: one of its own.
	Press *press.Meter
	// OnFinish gives the parts of the commit that ends a job: its settlement.
	OnFinish func(*store.Job) []store.Part
	// OnRunning hears how many jobs are split, sent and collected, when that changes; not twice at one time. It must not wait.
	OnRunning func(jobs int)
	// Pretend answers the rows of jobs of test keys, which ask nobody.
	Pretend func(engine.Address) engine.Verdict
}

// The bounds of the whole coordinator.
const (
	maxUploads   = 8      // received at one time
	maxRunning   = 64     // jobs that are split, sent and collected at one time
	maxHeavy     = 2      // of these, with more than lightRows rows, splitting at one time
	maxLight     = 4      // and with fewer
	lightRows    = 20_000 // what makes a job light
	maxAssembled = 1      // result files made at one time
	maxRendered  = 2      // and written in another form
	maxErased    = 1      // addresses erased
	maxWorkers   = 4      // of one piece of work, each on a processor of its own
	defaultHold  = 60 * time.Second
)

// Coordinator runs jobs and answers single requests. Its methods may be called from any goroutine.
type Coordinator struct {
	cfg      Config
	log      *slog.Logger
	table    atomic.Pointer[engine.Table]
	packer   *zstd.Encoder
	unpacker *zstd.Decoder
	workers  int

	uploads, running, heavy, light, assembling, rendering, erasing chan struct{} // counting semaphores

	swapping chan struct{} // a place for one: who opens a spool and its index, or swaps them
	telling  sync.Mutex    // held while OnRunning is told

	desk   *desk
	meters meters
	press  *press.Meter // of singles
	// Of those who read chunks of long lists, and of short ones.
	breaths, shortBreaths press.Breaths

	spares spares

	mu       sync.Mutex // guards all below
	runners  map[string]*runner
	watch    map[string]chan struct{} // closed when the job's state changes; only for jobs somebody waits for
	arriving map[string]bool          // uploads that are no jobs yet
	turns    map[string]*turn         // of the jobs whose files somebody works on
	halt     func(error)              // set while Run is on: ends it
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
	workers := min(maxWorkers, runtime.GOMAXPROCS(0))
	sem := func(n int) chan struct{} { return make(chan struct{}, n) }
	c := &Coordinator{
		cfg: cfg, log: cfg.Log, packer: newPacker(workers), unpacker: newUnpacker(workers), workers: workers,
		uploads: sem(maxUploads), running: sem(maxRunning), heavy: sem(maxHeavy), light: sem(maxLight), assembling: sem(maxAssembled), rendering: sem(maxRendered), erasing: sem(maxErased),
		swapping: sem(1), breaths: press.NewBreaths(), shortBreaths: press.NewBreaths(), turns: map[string]*turn{},
		desk: newDesk(cfg.Lately), press: cfg.Press, runners: map[string]*runner{}, watch: map[string]chan struct{}{}, arriving: map[string]bool{},
	}
	c.spares.init()
	c.table.Store(cfg.Table)
	return c
}

// SetTable makes a new provider table the one in force, for what is decided from now on.
func (c *Coordinator) SetTable(t *engine.Table) { c.table.Store(t) }

// Run runs the jobs until ctx ends or something durable fails; it returns when all its goroutines have.
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
	all.Go(func() {
		if err := c.keepHouse(ctx); err != nil && ctx.Err() == nil {
			stop(err)
		}
	})
	if err := c.beginAll(ctx, begin, stop); err != nil {
		stop(err)
	}
	<-ctx.Done()
	c.mu.Lock()
	c.start, c.halt = nil, nil
	c.mu.Unlock()
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// beginAll starts what the store has unfinished, and lets Accept start what comes.
func (c *Coordinator) beginAll(ctx context.Context, begin func(id string), halt func(error)) error {
	if err := c.sweepFolders(); err != nil {
		return err
	}
	if err := c.endErasures(ctx); err != nil {
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
	c.start, c.halt = begin, halt
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
