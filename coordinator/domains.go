package coordinator

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"probity/engine"
)

// domain is what the split knows of one domain.
type domain struct {
	name     string
	via      via
	ready    bool       // the route is known
	named    bool       // via.mx is set
	suggests tri        // whether the lists suggest another domain
	rows     []splitRow // waiting for the route
	asked    int        // times that it was asked for again
	canary   bool       // no row waits for it: see doubts
	held     bool       // by doubts, which count its rows
}

type tri uint8

const (
	notAsked tri = iota
	yes
	no
)

const domainsKept = 32 << 10 // of a generation; two are kept

// domains finds the route of each domain once, as long as it is remembered: two generations of bounded size, so that the
// domains in use stay. The resolver remembers too. One goroutine uses it; those it starts end with close.
type domains struct {
	ctx        context.Context
	resolver   Resolver
	young, old map[string]*domain
	asking     int // being looked up, or in line for it; one that grows old meanwhile is asked for again
	line       chan *domain
	known      chan *domain
	lookups    int
	started    int
	doubts     doubts
	found      string // a domain that was found last
	all        sync.WaitGroup
}

func newDomains(ctx context.Context, r Resolver, lookups int) *domains {
	return &domains{
		ctx: ctx, resolver: r, young: map[string]*domain{}, lookups: lookups,
		old: map[string]*domain{}, line: make(chan *domain, waitingDomains), known: make(chan *domain, waitingDomains),
	}
}

// get is what is known of a domain; nil when it was never asked for.
func (d *domains) get(name string) *domain {
	if x := d.young[name]; x != nil {
		return x
	}
	if x := d.old[name]; x != nil {
		d.keep(x)
		return x
	}
	return nil
}

func (d *domains) keep(x *domain) {
	if len(d.young) >= domainsKept {
		d.old, d.young = d.young, d.old
		clear(d.young)
	}
	d.young[x.name] = x
}

// open is how many domains are being looked up.
func (d *domains) open() int { return d.asking }

// ask starts to look up a domain; the caller keeps open below waitingDomains.
func (d *domains) ask(name string) *domain {
	x := &domain{name: strings.Clone(name)}
	d.keep(x)
	d.asking++
	d.line <- x
	if d.started < d.lookups && d.started < d.asking {
		d.started++
		d.all.Go(d.lookUp)
	}
	return x
}

func (d *domains) lookUp() {
	for x := range d.line {
		if d.ctx.Err() == nil {
			x.via.Route = d.resolver.Route(d.ctx, x.name)
		}
		d.known <- x
	}
}

// next is a domain whose route has become known; nil when there is none, and none comes within wait.
func (d *domains) next(wait time.Duration) (*domain, error) {
	if d.doubts.none() { // then the time does not matter, and reading the clock for each domain is too often
		x, err := d.hear(0)
		if err != nil {
			return nil, err
		}
		if x != nil && d.takes(x, timeOf(x)) {
			return d.learn(x), nil
		}
	}
	now := time.Now()
	for until := now.Add(wait); ; now = time.Now() {
		d.askAgain(now)
		idle := wait > 0 && d.asking == d.doubts.held()
		if x := d.doubts.release(idle, now); x != nil {
			return d.learn(x), d.ctx.Err()
		}
		x, err := d.hear(d.doubts.wait(until, now))
		if x == nil || err != nil {
			if !now.Before(until) || d.asking == 0 || err != nil {
				return nil, err
			}
			continue
		}
		if d.takes(x, timeOf(x)) {
			return d.learn(x), d.ctx.Err()
		}
	}
}

// timeOf is when an answer was heard, where that matters: of a canary, and of a failure.
func timeOf(x *domain) (now time.Time) {
	if x.canary || unresolved(x) {
		now = time.Now()
	}
	return now
}

// takes takes an answer in; true when its rows may be told.
func (d *domains) takes(x *domain, now time.Time) bool {
	switch {
	case x.canary:
		d.asking--
		d.doubts.proved(!unresolved(x), now)
		return false
	case d.doubts.settles(x, now):
		if x.via.Fact.Routable() {
			d.found = x.name
		}
		return true
	case !d.doubts.wantsCanary(now):
	case d.found == "" || d.asking == waitingDomains:
		d.doubts.proved(false, now)
	default:
		name := "x" + strconv.FormatUint(rand.Uint64(), 36) + "." + d.found
		d.doubts.asking = true
		d.asking++
		d.all.Go(func() { d.sendCanary(name) })
	}
	return false
}

// sendCanary looks up a made-up name at once, not in line: what counts is whether names are found now.
func (d *domains) sendCanary(name string) {
	began := time.Now()
	x := &domain{name: name, canary: true}
	x.via.Route = d.resolver.Route(d.ctx, name)
	if time.Since(began) > promptly {
		x.via.Fact = engine.FactDNSTimeout // a try was lost
	}
	d.known <- x
}

// hear is the next answer, nil when none comes in time.
func (d *domains) hear(wait time.Duration) (*domain, error) {
	select {
	case x := <-d.known:
		return x, d.ctx.Err()
	default:
	}
	if wait <= 0 || d.asking == 0 {
		return nil, d.ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case x := <-d.known:
		return x, d.ctx.Err()
	case <-t.C:
		return nil, nil
	case <-d.ctx.Done():
		return nil, d.ctx.Err()
	}
}

// askAgain puts each domain that was put off and is due into the line. There is room: it is among those being asked.
func (d *domains) askAgain(now time.Time) {
	for x := d.doubts.due(now); x != nil; x = d.doubts.due(now) {
		d.line <- x
	}
}

func (d *domains) learn(x *domain) *domain {
	d.asking--
	x.ready = true
	return x
}

// noMore says that no other domain will be asked for: what was learnt is forgotten. Those that failed may be asked for again.
func (d *domains) noMore() { d.young, d.old = nil, nil }

// close ends the lookups; ctx must have ended or nothing be asked.
func (d *domains) close() {
	close(d.line)
	d.all.Wait()
}

// joinMX is an MX set as the names keep it and the result file shows it.
func joinMX(hosts []string) string { return strings.Join(hosts, " ") }
