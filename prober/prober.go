package prober

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/prober/wire/timing"
	"probity/store/cache"
)

// Prober is one node's prober. It implements wire.Prober.
type Prober struct {
	cfg         Config
	table       atomic.Pointer[engine.Table]
	egress      egresses
	flight      *flight
	retries     *retries
	ledger      *ledger
	slots       slots
	calls       calls
	dests       destinations
	metrics     *metrics
	spare       *spare
	recent      *recent
	tls         *tls.Config // of all sessions
	tickets     tickets
	stile       *turnstile
	horizon     horizon
	rows        atomic.Int64  // probes in memory
	connections atomic.Uint32 // ever made, to number them
	warned      sync.Once
	refrain     refrain
	born        time.Time     // when it was made
	quiet       time.Time     // budgets per minute are used up until then: what was used before the start is not known
	started     chan struct{} // closed when Run begins
	stop        chan struct{} // closed when Run ends

	mu    sync.Mutex // guards lanes
	lanes map[laneKey]*lane

	life struct {
		mu      sync.Mutex // guards what follows
		soft    context.Context
		hard    context.Context
		on      bool
		working sync.WaitGroup
	}
}

// New makes a prober; Run starts it.
func New(c Config) (*Prober, error) {
	c, err := c.ready()
	if err != nil {
		return nil, err
	}
	p := &Prober{cfg: c, born: time.Now(), flight: newFlight(), retries: newRetries(c.MaxRetries), ledger: newLedger(c.Cache), slots: slots{size: c.MaxSessions}, spare: newSpare(c.Part), recent: newRecent(c.Cache.Keyer), tls: newTLS(),
		dests: destinations{all: map[destinationKey]*destination{}}, lanes: map[laneKey]*lane{}, started: make(chan struct{}), stop: make(chan struct{})}
	p.calls.shared = c.Press
	p.stile = newTurnstile(c.MaxSessions, &p.calls)
	p.table.Store(c.Table)
	if p.egress, err = newEgresses(c.Identities, c.MailFrom); err != nil {
		return nil, err
	}
	if p.metrics, err = newMetrics(p, c.Metrics); err != nil {
		return nil, err
	}
	p.recallRests(time.Now())
	return p, p.warm(time.Now())
}

// stopTime is how long sessions may take to finish what they have sent; leaving them takes up to quitTime more.
const stopTime = timing.HangUp

// Run works until ctx ends, and returns after all that it started has.
func (p *Prober) Run(ctx context.Context) error {
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	p.quiet = p.quietAfterStart(time.Now())
	p.life.mu.Lock()
	p.life.soft, p.life.hard, p.life.on = ctx, hard, true
	p.life.mu.Unlock()
	close(p.started)
	for _, loop := range [...]func(context.Context){p.ledgerLoop, p.tend, p.sweep, p.retryLoop, p.mendCache} {
		p.spawn(func(soft, _ context.Context) { loop(soft) })
	}
	for _, e := range p.egress.list {
		p.lookAfter(e) // one that rests since before the start
	}
	<-ctx.Done()
	p.life.mu.Lock()
	p.life.on = false
	p.life.mu.Unlock()
	close(p.stop)
	late := time.AfterFunc(stopTime, cancel)
	defer late.Stop()
	p.life.working.Wait()
	p.tellUnsaid(time.Now().Add(refrainSpan)) // of a span that is not over, too
	return p.shut(time.Now())
}

// spawn runs f as a child of Run; false when Run is not there to wait for it. soft ends when no new work should begin, hard
// when all must end.
func (p *Prober) spawn(f func(soft, hard context.Context)) bool {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	if !p.life.on {
		return false
	}
	soft, hard := p.life.soft, p.life.hard
	p.life.working.Go(func() { f(soft, hard) })
	return true
}

// await waits for Run to begin, since its callers may have been started at the same time. It fails once Run has ended.
func (p *Prober) await(ctx context.Context) error {
	select {
	case <-p.stop:
		return ErrStopped
	default:
	}
	select {
	case <-p.started:
		return nil // even if ctx has ended: the cache may know
	default:
	}
	select {
	case <-p.started:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SetTable swaps the provider table. Lanes take its limits at once, and ask no host that it excludes; probes in flight keep
// their schedule.
func (p *Prober) SetTable(t *engine.Table) {
	p.table.Store(t)
	now := time.Now()
	for _, l := range p.allLanes() {
		l.heedTable(now)
	}
}

// firstWait is how old a deferred decoy must be before it is asked again.
func (p *Prober) firstWait(pr *probe) time.Duration {
	if s := pr.policy.Schedule; len(s) > 0 {
		return max(s[0], time.Millisecond)
	}
	return time.Minute
}

func (p *Prober) warnOnce() {
	p.warned.Do(func() {
		p.cfg.Log.Warn("public mail servers are not asked: no EHLO host name or no MAIL FROM is configured")
	})
}

// laneOf finds or makes a lane; nil when there are too many.
func (p *Prober) laneOf(r *engine.Route, e *egress, now time.Time) *lane {
	k := laneKey{r.Key, e.name}
	p.mu.Lock()
	l, full := p.lanes[k], len(p.lanes) >= p.cfg.MaxLanes
	p.mu.Unlock()
	if l != nil || full {
		return l
	}
	fresh := newLane(p, k, r.Provider, e, now)
	fresh.hosts = r.Hosts
	if err := fresh.open(p.cfg.Cache, now); err != nil {
		p.tellUnread(err)
	}
	if now.Before(fresh.pace.rest) && r.Provider.Kind == engine.KindWide {
		e.restAt(r.Provider.ID, fresh.pace.rest)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l = p.lanes[k]; l == nil {
		fresh.off = p.off(r.Provider, r.Hosts) // by a table that SetTable's look at all lanes came too late for, or comes after
		l = fresh
		p.lanes[k] = l
	}
	return l
}

// add gives probes to a lane, or to its successor when it has left the registry meanwhile.
func (p *Prober) add(l *lane, probes []*probe, now time.Time) {
	for !l.add(probes, now) {
		p.forget(l)
		if next := p.laneOf(probes[0].ev.Route, l.egress, now); next != nil {
			l = next
			continue
		}
		for _, pr := range probes {
			p.rows.Add(-1)
			pr.ev.Append(engine.Sighting{Event: engine.EventInternal, At: now})
			o := pr.conclude(now)
			p.deliver(pr, &o, now)
		}
		return
	}
}

func (p *Prober) forget(l *lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lanes[l.key] == l {
		delete(p.lanes, l.key)
	}
}

func (p *Prober) laneCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lanes)
}

func (p *Prober) allLanes() []*lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*lane, 0, len(p.lanes))
	for _, l := range p.lanes {
		all = append(all, l)
	}
	return all
}

// clockName is the budget under which the node notes that it is alive.
const clockName = "clock"

// quietAfterStart is until when the budgets per minute count as used up: a minute after this node may last have been working.
func (p *Prober) quietAfterStart(now time.Time) time.Time {
	state, ok, err := p.cfg.Cache.Budget(clockName)
	most := now.Add(p.table.Load().Scaled(time.Minute + time.Second))
	if err != nil {
		return most
	}
	if !ok || len(state) != 8 {
		return time.Time{}
	}
	until := time.UnixMilli(int64(binary.BigEndian.Uint64(state))).Add(time.Minute + time.Second)
	if until.After(most) {
		until = most
	}
	return until
}

// Fresh reports that this node has asked no receiver since its start, nor was at work in the hour before it, for so long its note of being alive is kept. False before Run.
func (p *Prober) Fresh() bool {
	select {
	case <-p.started:
		return p.quiet.IsZero() && p.metrics.sent.Load() == 0
	default:
		return false
	}
}

// note writes that this node may be working until a time.
func (p *Prober) note(until time.Time) cache.Budget {
	return cache.Budget{Name: clockName, State: binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())), Until: until.Add(time.Hour)}
}

// quietUntil is from when a receiver with budgets per minute may be asked.
func (p *Prober) quietUntil(l engine.Limits) time.Time {
	if l.ConnectionsPerMinute == 0 && l.RecipientsPerMinute == 0 {
		return time.Time{}
	}
	return p.quiet
}
