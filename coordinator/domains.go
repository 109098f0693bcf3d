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
	name          string
	route         rowRoute
	resolved      bool       // the route is known
	mxSet         bool       // route.mx is set
	suggests      triState   // whether the lists suggest another domain
	waitingRows   []splitRow // waiting for the route
	retries       int        // times that it was asked for again
	resolverCheck bool       // no row waits for it: see unresolvedDomains
	held          bool       // by unresolvedDomains, which counts its rows
}

type triState uint8

const (
	notAskedYet triState = iota
	yes
	no
)

const maxRemembered = 32 << 10 // of a generation; two are kept

// domains finds the route of each domain once, as long as it is remembered: two generations of bounded size, so that the
// domains in use stay. The resolver remembers too. One goroutine uses it; those it starts end with close.
type domains struct {
	ctx           context.Context
	resolver      Resolver
	recent, older map[string]*domain
	pending       int // being looked up, or in line for it; one that grows old meanwhile is asked for again
	lookupQueue   chan *domain
	results       chan *domain
	lookups       int
	workers       int
	unresolved    unresolvedDomains
	lastFound     string // a domain that was found last
	all           sync.WaitGroup
}

func newDomains(ctx context.Context, r Resolver, lookups int) *domains {
	return &domains{
		ctx: ctx, resolver: r, recent: map[string]*domain{}, lookups: lookups,
		older: map[string]*domain{}, lookupQueue: make(chan *domain, maxWaitingDomains), results: make(chan *domain, maxWaitingDomains),
	}
}

// get is what is known of a domain; nil when it was never asked for.
func (d *domains) get(name string) *domain {
	if x := d.recent[name]; x != nil {
		return x
	}
	if x := d.older[name]; x != nil {
		d.remember(x)
		return x
	}
	return nil
}

func (d *domains) remember(x *domain) {
	if len(d.recent) >= maxRemembered {
		d.older, d.recent = d.recent, d.older
		clear(d.recent)
	}
	d.recent[x.name] = x
}

// open is how many domains are being looked up.
func (d *domains) open() int { return d.pending }

// startLookup starts to look up a domain; the caller keeps open below maxWaitingDomains.
func (d *domains) startLookup(name string) *domain {
	x := &domain{name: strings.Clone(name)}
	d.remember(x)
	d.pending++
	d.lookupQueue <- x
	if d.workers < d.lookups && d.workers < d.pending {
		d.workers++
		d.all.Go(d.runLookups)
	}
	return x
}

func (d *domains) runLookups() {
	for x := range d.lookupQueue {
		if d.ctx.Err() == nil {
			x.route.Route = d.resolver.Route(d.ctx, x.name)
		}
		d.results <- x
	}
}

// next is a domain whose route has become known; nil when there is none, and none comes within wait.
func (d *domains) next(wait time.Duration) (*domain, error) {
	if d.unresolved.isIdle() { // then the time does not matter, and reading the clock for each domain is too often
		x, err := d.receive(0)
		if err != nil {
			return nil, err
		}
		if x != nil && d.handleLookup(x, answerTime(x)) {
			return d.markResolved(x), nil
		}
	}
	now := time.Now()
	for until := now.Add(wait); ; now = time.Now() {
		d.retryDue(now)
		idle := wait > 0 && d.pending == d.unresolved.held()
		if x := d.unresolved.release(idle, now); x != nil {
			return d.markResolved(x), d.ctx.Err()
		}
		x, err := d.receive(d.unresolved.wait(until, now))
		if x == nil || err != nil {
			if !now.Before(until) || d.pending == 0 || err != nil {
				return nil, err
			}
			continue
		}
		if d.handleLookup(x, answerTime(x)) {
			return d.markResolved(x), d.ctx.Err()
		}
	}
}

// answerTime is when an answer was heard, where that matters: of a resolver check, and of a failure.
func answerTime(x *domain) (now time.Time) {
	if x.resolverCheck || isUnresolved(x) {
		now = time.Now()
	}
	return now
}

// handleLookup takes an answer in; true when its rows may be told.
func (d *domains) handleLookup(x *domain, now time.Time) bool {
	switch {
	case x.resolverCheck:
		d.pending--
		d.unresolved.checkDone(!isUnresolved(x), now)
		return false
	case d.unresolved.handleAnswer(x, now):
		if x.route.Fact.Routable() {
			d.lastFound = x.name
		}
		return true
	case !d.unresolved.wantsCheck(now):
	case d.lastFound == "" || d.pending == maxWaitingDomains:
		d.unresolved.checkDone(false, now)
	default:
		name := "x" + strconv.FormatUint(rand.Uint64(), 36) + "." + d.lastFound
		d.unresolved.checking = true
		d.pending++
		d.all.Go(func() { d.checkResolver(name) })
	}
	return false
}

// checkResolver looks up a made-up name at once, not in line: what counts is whether names are found now.
func (d *domains) checkResolver(name string) {
	began := time.Now()
	x := &domain{name: name, resolverCheck: true}
	x.route.Route = d.resolver.Route(d.ctx, name)
	if time.Since(began) > promptLookup {
		x.route.Fact = engine.FactDNSTimeout // a try was lost
	}
	d.results <- x
}

// receive is the next answer, nil when none comes in time.
func (d *domains) receive(wait time.Duration) (*domain, error) {
	select {
	case x := <-d.results:
		return x, d.ctx.Err()
	default:
	}
	if wait <= 0 || d.pending == 0 {
		return nil, d.ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case x := <-d.results:
		return x, d.ctx.Err()
	case <-t.C:
		return nil, nil
	case <-d.ctx.Done():
		return nil, d.ctx.Err()
	}
}

// retryDue puts each domain that was put off and is due into the line. There is room: it is among those being asked.
func (d *domains) retryDue(now time.Time) {
	for x := d.unresolved.nextDue(now); x != nil; x = d.unresolved.nextDue(now) {
		d.lookupQueue <- x
	}
}

func (d *domains) markResolved(x *domain) *domain {
	d.pending--
	x.resolved = true
	return x
}

// forget says that no other domain will be asked for: what was learnt is forgotten. Those that failed may be asked for again.
func (d *domains) forget() { d.recent, d.older = nil, nil }

// close ends the lookups; ctx must have ended or nothing be asked.
func (d *domains) close() {
	close(d.lookupQueue)
	d.all.Wait()
}

// joinMX is an MX set as the names keep it and the result file shows it.
func joinMX(hosts []string) string { return strings.Join(hosts, " ") }
