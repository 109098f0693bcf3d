package prober

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/prober/admission"
	"probity/prober/budget"
	"probity/prober/rtt"
	"probity/prober/source"
	"probity/prober/trace"
	"probity/prober/wire/timing"
	"probity/store/cache"
)

// Prober is one node's prober. It implements wire.Prober.
type Prober struct {
	cfg           Config
	table         atomic.Pointer[engine.Table]
	sources       source.Set
	inFlight      *inFlight
	retries       *retries
	budgetLog     *budget.Log
	slots         *admission.Slots
	singleCalls   admission.SingleCalls
	addressLimits addressLimits
	metrics       *metrics
	buffers       *bufferPool
	recent        *trace.Recent
	tls           *tls.Config // of all sessions
	tickets       tickets
	gate          *admission.Gate
	nodeRTT       rtt.Shared
	rows          atomic.Int64  // probes in memory
	connections   atomic.Uint32 // ever made, to number them
	warned        sync.Once
	quarantineLog logLimiter
	created       time.Time     // when it was made
	quiet         time.Time     // budgets per minute count as used up until then: their use before the start is not known
	started       chan struct{} // closed when Run begins
	stop          chan struct{} // closed when Run ends

	mu     sync.Mutex // guards queues
	queues map[queueKey]*readyQueue

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
	p := &Prober{cfg: c, created: time.Now(), inFlight: newInFlight(), retries: newRetries(c.MaxRetries), budgetLog: budget.NewLog(c.Cache), slots: admission.NewSlots(c.MaxSessions), buffers: newBufferPool(c.Part), recent: trace.New(decoys(c.Cache)), tls: newTLS(),
		addressLimits: addressLimits{all: map[addressLimitKey]*addressLimit{}}, queues: map[queueKey]*readyQueue{}, started: make(chan struct{}), stop: make(chan struct{})}
	p.singleCalls.Shared = c.SingleLoad
	p.gate = admission.NewGate(c.MaxSessions, runtime.GOMAXPROCS(0), admission.RunnableGoroutines(), &p.singleCalls)
	p.table.Store(c.Table)
	if p.sources, err = source.New(c.Sources, c.MailFrom); err != nil {
		return nil, err
	}
	if p.metrics, err = newMetrics(p, c.Metrics); err != nil {
		return nil, err
	}
	for _, src := range p.sources.List {
		if err := src.LoadQuarantine(c.Cache, c.Table.Scaled(source.DelistingInterval), time.Now()); err != nil {
			c.Log.Error("quarantine of an egress source unreadable: quarantined for an hour", "egress", src.Name, "error", err)
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
	p.quiet = quietAfterStart(p.cfg.Cache, time.Now().Add(p.table.Load().Scaled(time.Minute+time.Second)))
	p.life.mu.Lock()
	p.life.soft, p.life.hard, p.life.running = ctx, hard, true
	p.life.mu.Unlock()
	close(p.started)
	for _, loop := range [...]func(context.Context){p.leaseLoop, p.maintain, p.sweep, p.retryLoop, p.mendCache} {
		p.spawn(func() { loop(ctx) })
	}
	for _, src := range p.sources.List {
		p.watchQuarantine(src) // if it was quarantined before the start
	}
	<-ctx.Done()
	p.life.mu.Lock()
	p.life.running = false
	p.life.mu.Unlock()
	close(p.stop)
	late := time.AfterFunc(stopTime, cancel)
	defer late.Stop()
	p.life.working.Wait()
	p.logSkipped(time.Now().Add(logSpan)) // the current span included
	// Close all queues, and write their budgets without leases: none is used any more.
	now := time.Now()
	budgets := []cache.Budget{heartbeat(now)}
	for _, q := range p.allQueues() {
		q.mu.Lock()
		q.close()
		budgets = append(budgets, q.budget.FinalState(now))
		q.mu.Unlock()
		p.unregister(q)
	}
	p.addressLimits.mu.Lock()
	for _, d := range p.addressLimits.all {
		d.mu.Lock()
		budgets = append(budgets, d.budget.FinalState(now))
		d.mu.Unlock()
	}
	p.addressLimits.mu.Unlock()
	return p.cfg.Cache.PutBudgets(budgets)
}

// spawn runs f in a goroutine for which Run waits; false if Run is not running. In f, life.soft and life.hard may be read.
func (p *Prober) spawn(f func()) bool {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	if p.life.running {
		p.life.working.Go(f)
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

// SetTable swaps the provider table. Queues take its limits at once, and ask no host that it excludes; probes in flight keep
// their schedule.
func (p *Prober) SetTable(t *engine.Table) {
	p.table.Store(t)
	now := time.Now()
	for _, q := range p.allQueues() {
		q.applyLimits(now)
	}
}

// firstWait is how long a deferred decoy waits before it is asked again.
func (pr *probe) firstWait() time.Duration {
	if s := pr.policy.Schedule; len(s) > 0 {
		return max(s[0], time.Millisecond)
	}
	return time.Minute
}

// queueOf finds or makes a ready queue; nil if there are too many.
func (p *Prober) queueOf(r *engine.Route, src *source.Source, now time.Time) *readyQueue {
	k := queueKey{r.Key, src.Name}
	p.mu.Lock()
	q, full := p.queues[k], len(p.queues) >= p.cfg.MaxQueues
	p.mu.Unlock()
	if q != nil || full {
		return q
	}
	fresh := &readyQueue{prober: p, key: k, provider: r.Provider, source: src, hosts: r.Hosts, unknownProvider: r.Provider.ID == p.table.Load().Unknown.ID}
	if r.Provider.Limits.ConnectionsPerMinute > 0 || r.Provider.Limits.RecipientsPerMinute > 0 {
		fresh.notBefore = p.quiet
	}
	if fresh.shared.queue = fresh; !fresh.unknownProvider {
		fresh.shared.pools = map[netip.Addr]*addressPool{}
	}
	wake := fresh.onWake
	fresh.slot = admission.NewWaiter(wake)
	// The name is stored: a budget that is not found counts as unused.
	fresh.budget = budget.NewPersisted("lane "+k.source+" "+k.route, budget.New(src.WarmUpLimits(r.Provider.Limits, now), &p.singleCalls, now), &fresh.mu, wake)
	if err := fresh.budget.Load(p.cfg.Cache, now); err != nil {
		p.logUnreadable(err)
	}
	if now.Before(fresh.budget.QuarantinedUntil) && r.Provider.Kind == engine.KindWide {
		src.QuarantineAt(r.Provider.ID, fresh.budget.QuarantinedUntil)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if q = p.queues[k]; q == nil {
		fresh.probingDisabled = probingDisabled(p.table.Load(), r.Provider, r.Hosts) // SetTable may have missed this queue
		q = fresh
		p.queues[k] = q
	}
	return q
}

// add adds probes to a ready queue, or to its successor if it was removed meanwhile.
func (p *Prober) add(q *readyQueue, probes []*probe, now time.Time) {
	for !q.add(probes, now) {
		p.unregister(q)
		if next := p.queueOf(probes[0].ev.Route, q.source, now); next != nil {
			q = next
			continue
		}
		out := make([]finishedProbe, len(probes))
		for i, pr := range probes {
			pr.ev.Append(engine.Sighting{Event: engine.EventInternal, At: now})
			out[i].probe = pr
		}
		p.finish(q, out, now)
		return
	}
}

func (p *Prober) unregister(q *readyQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queues[q.key] == q {
		delete(p.queues, q.key)
	}
}

func (p *Prober) allQueues() []*readyQueue {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*readyQueue, 0, len(p.queues))
	for _, q := range p.queues {
		all = append(all, q)
	}
	return all
}

// heartbeatKey is the name of the budget that stores the heartbeat.
const heartbeatKey = "clock"

// quietAfterStart is until when the budgets per minute count as used up: a minute after the time until which this node may have
// worked, but not after most.
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

// Fresh reports that this node has asked no receiver since its start and did not run in the hour before, which is how long its
// heartbeat is kept. False before Run.
func (p *Prober) Fresh() bool {
	select {
	case <-p.started:
		return p.quiet.IsZero() && p.metrics.sent.Load() == 0
	default:
		return false
	}
}

// heartbeat is the cache entry that says that this node may work until a time.
func heartbeat(until time.Time) cache.Budget {
	return cache.Budget{Name: heartbeatKey, State: binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())), Until: until.Add(time.Hour)}
}
