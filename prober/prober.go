package prober

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/prober/addresslimit"
	"probity/prober/admission"
	"probity/prober/budget"
	"probity/prober/conn"
	"probity/prober/hostqueue"
	"probity/prober/readyqueue"
	"probity/prober/source"
	"probity/prober/trace"
	"probity/prober/wire/timing"
	"probity/store/cache"
)

// Prober is one node's prober. It implements wire.Prober.
type Prober struct {
	cfg         Config
	env         *readyqueue.Env // of all queues
	sources     source.Set
	inFlight    *inFlight
	retries     *retries
	singleCalls admission.SingleCalls
	metrics     *metrics
	buffers     *bufferPool
	recent      *trace.Recent
	rows        atomic.Int64  // probes in memory
	quiet       time.Time     // budgets per minute count as used up until then: their use before the start is not known
	started     chan struct{} // closed when Run begins
	stop        chan struct{} // closed when Run ends

	mu     sync.Mutex // guards queues
	queues map[readyqueue.Key]*readyqueue.Queue

	life struct {
		mu      sync.Mutex      // guards what follows
		soft    context.Context // ends when no new work should begin; set once, before running
		hard    context.Context // ends when all must end; set once, too
		running bool
		working sync.WaitGroup
	}
}

// New makes a prober; Run starts it.
func New(c Config) (*Prober, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Prober{cfg: c, inFlight: newInFlight(), retries: newRetries(c.MaxRetries), buffers: newBufferPool(c.Part),
		queues: map[readyqueue.Key]*readyqueue.Queue{}, started: make(chan struct{}), stop: make(chan struct{})}
	p.recent = trace.New(func(domain string, at time.Time) string {
		return hostqueue.DecoyLocalPart(c.Cache.Keyer(), domain, at)
	})
	p.singleCalls.Shared = c.SingleLoad
	if p.sources, err = source.New(c.Sources, c.MailFrom); err != nil {
		return nil, err
	}
	opener := &conn.Opener{Resolver: c.Resolver, IPv6: p.sources.IPv6, DialFunc: c.Dial, SOCKS5: c.SOCKS5,
		AllowPrivate: c.AllowPrivate,
		Port:         c.Port, MailFrom: c.MailFrom, Timeouts: c.Timeouts, ConnectTimeout: c.Connect}
	leases := budget.NewLog(c.Cache)
	p.env = &readyqueue.Env{Cache: c.Cache, Log: c.Log, Created: time.Now(), Opener: opener,
		Linger: c.Linger, MaxSessions: c.MaxSessions, MaxQueueSessions: c.MaxQueueSessions,
		BudgetLog: leases, AddressLimits: addresslimit.NewRegistry(c.Cache, leases, &p.singleCalls),
		Slots: admission.NewSlots(c.MaxSessions), SingleCalls: &p.singleCalls,
		Gate:  admission.NewGate(c.MaxSessions, runtime.GOMAXPROCS(0), admission.RunnableGoroutines(), &p.singleCalls),
		Start: p.start, Finish: p.finish, DropUnwanted: p.dropUnwanted, Blocklisted: p.quarantineEverywhere,
		Delisted: p.resumeDelisted,
		Suspect:  func(src *source.Source) { p.watch(src, source.Reachability) }}
	p.env.Table.Store(c.Table)
	if p.metrics, err = newMetrics(p, c.Metrics); err != nil {
		return nil, err
	}
	for _, src := range p.sources.List {
		if err := src.LoadQuarantine(c.Cache, c.Table.Scaled(source.DelistingInterval), time.Now()); err != nil {
			c.Log.Error("quarantine of an egress source unreadable: quarantined for an hour", "egress", src.Name,
				"error", err)
		}
	}
	if c.SkipWarmUp || c.AllowPrivate {
		return p, nil
	}
	return p, p.sources.LoadFirstUses(c.Cache, time.Now())
}

// stopTime is how long sessions may take to finish what they have sent; closing them takes up to quitTime more.
const stopTime = timing.CloseTimeout

// Run works until ctx ends, and returns after all its goroutines have.
func (p *Prober) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	p.quiet = quietAfterStart(p.cfg.Cache, time.Now().Add(p.env.Table.Load().Scaled(time.Minute+time.Second)))
	p.life.mu.Lock()
	p.life.soft, p.life.hard, p.life.running = ctx, hard, true
	p.life.mu.Unlock()
	close(p.started)
	for _, loop := range [...]func(context.Context){p.leaseLoop, p.maintain, p.sweep, p.retryLoop, p.mendCache} {
		p.start(func(soft, _ context.Context) { loop(soft) })
	}
	for _, src := range p.sources.List {
		p.watch(src, source.Delisting) // if it was quarantined before the start
	}
	<-ctx.Done()
	p.life.mu.Lock()
	p.life.running = false
	p.life.mu.Unlock()
	close(p.stop)
	late := time.AfterFunc(stopTime, cancel)
	defer late.Stop()
	p.life.working.Wait()
	// Close all queues, and write their budgets without leases: none is used any more.
	now := time.Now()
	budgets := []cache.Budget{heartbeat(now)}
	for _, q := range p.allQueues() {
		budgets = append(budgets, q.Close(now))
		p.unregister(q)
	}
	return p.cfg.Cache.PutBudgets(append(budgets, p.env.AddressLimits.FinalStates(now)...))
}

// start runs f in a goroutine for which Run waits; false if Run is not running.
func (p *Prober) start(f func(soft, hard context.Context)) bool {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	if p.life.running {
		p.life.working.Go(func() { f(p.life.soft, p.life.hard) })
	}
	return p.life.running
}

// awaitRun waits until Run has begun, as callers may start at the same time. It fails once Run has ended.
func (p *Prober) awaitRun(ctx context.Context) error {
	select {
	case <-p.stop:
		return ErrStopped
	default:
	}
	select {
	case <-p.started:
		return nil // even if ctx has ended: the cache may have the answer
	default:
	}
	select {
	case <-p.started:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SetTable swaps the provider table. Queues take its limits at once, and ask no host that it excludes; probes in flight
// keep their schedule.
func (p *Prober) SetTable(t *engine.Table) {
	p.env.Table.Store(t)
	now := time.Now()
	for _, q := range p.allQueues() {
		q.ApplyTable(now)
	}
}

// queueOf finds or makes a ready queue; nil if there are too many.
func (p *Prober) queueOf(r *engine.Route, src *source.Source, now time.Time) *readyqueue.Queue {
	k := readyqueue.Key{Route: r.Key, Source: src.Name}
	p.mu.Lock()
	q, full := p.queues[k], len(p.queues) >= p.cfg.MaxQueues
	p.mu.Unlock()
	if q != nil || full {
		return q
	}
	for q == nil {
		table := p.env.Table.Load()
		fresh := readyqueue.New(p.env, table, r, src, p.quiet, now)
		p.mu.Lock()
		q = p.queues[k]
		if q == nil && p.env.Table.Load() == table { // else SetTable has missed it
			q = fresh
			p.queues[k] = q
		}
		p.mu.Unlock()
	}
	return q
}

// add adds probes to a ready queue, or to its successor if it was removed meanwhile.
func (p *Prober) add(q *readyqueue.Queue, probes []*hostqueue.Probe, now time.Time) {
	for !q.Add(probes, now) {
		p.unregister(q)
		if next := p.queueOf(probes[0].Ev.Route, q.Source, now); next != nil {
			q = next
			continue
		}
		out := make([]hostqueue.Finished, len(probes))
		for i, pr := range probes {
			pr.Ev.Append(engine.Sighting{Event: engine.EventInternal, At: now})
			out[i].Probe = pr
		}
		p.finish(q, out, now)
		return
	}
}

func (p *Prober) unregister(q *readyqueue.Queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queues[q.Key] == q {
		delete(p.queues, q.Key)
	}
}

func (p *Prober) allQueues() []*readyqueue.Queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*readyqueue.Queue, 0, len(p.queues))
	for _, q := range p.queues {
		all = append(all, q)
	}
	return all
}

// heartbeatKey is the name of the budget that stores the heartbeat.
const heartbeatKey = "clock"

// quietAfterStart is until when the budgets per minute count as used up: a minute after the time until which this node
// may have worked, but not after most.
func quietAfterStart(c *cache.Cache, most time.Time) time.Time {
	state, ok, err := c.Budget(heartbeatKey)
	switch {
	case err != nil:
		return most
	case !ok || len(state) != 8:
		return time.Time{}
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(state))).Add(time.Minute + time.Second)
	if until.After(most) {
		until = most
	}
	return until
}

// Fresh reports whether this node has asked no receiver since its start and did not run in the hour before, which is
// how long its heartbeat is kept. False before Run.
func (p *Prober) Fresh() bool {
	select {
	case <-p.started:
		return p.quiet.IsZero() && p.env.Metrics.Sent.Load() == 0
	default:
		return false
	}
}

// heartbeat is the cache entry that says that this node may work until a time.
func heartbeat(until time.Time) cache.Budget {
	return cache.Budget{Name: heartbeatKey, State: binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())),
		Until: until.Add(time.Hour)}
}
