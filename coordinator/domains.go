package coordinator

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"probity/coordinator/chunks"
	"probity/engine"
)

// domain is what the splitter knows of one domain.
type domain struct {
	name          string
	route         chunks.Route
	resolved      bool       // the route is known
	mxSet         bool       // route.mx is set
	suggests      triState   // whether the lists suggest another domain
	waitingRows   []splitRow // rows that wait for the route
	retries       int        // repeated lookups
	resolverCheck bool       // a test of the resolver without rows: see unresolvedDomains
	held          bool       // held by unresolvedDomains, which counts its rows
}

type triState uint8

const (
	notAskedYet triState = iota
	yes
	no
)

const maxRemembered = 32 << 10 // domains of a generation; two are kept

// domains finds the route of each domain and remembers it in two generations of bounded size, so that domains in use stay.
// The resolver has its own cache. One goroutine uses it; the goroutines that it starts end with close.
type domains struct {
	ctx           context.Context
	resolver      Resolver
	recent, older map[string]*domain
	pending       int // lookups queued or running; a domain may be forgotten meanwhile and then looked up again
	lookupQueue   chan *domain
	results       chan *domain
	lookups       int
	workers       int
	unresolved    unresolvedDomains
	lastFound     string // the last domain that was found
	all           sync.WaitGroup
}

func newDomains(ctx context.Context, r Resolver, lookups int) *domains {
	return &domains{
		ctx: ctx, resolver: r, recent: map[string]*domain{}, lookups: lookups,
		older: map[string]*domain{}, lookupQueue: make(chan *domain, maxWaitingDomains), results: make(chan *domain, maxWaitingDomains),
	}
}

// get returns a remembered domain, or nil.
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

// open returns how many domains are being looked up.
func (d *domains) open() int { return d.pending }

// startLookup starts the lookup of a domain; the caller keeps open below maxWaitingDomains.
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

// next returns a domain whose route has become known, or nil if there is none within wait.
func (d *domains) next(wait time.Duration) (*domain, error) {
	if d.unresolved.isIdle() { // the usual case, without reading the clock for each domain
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

// answerTime returns the time of an answer if it matters (a resolver check or a failure), else zero.
func answerTime(x *domain) (now time.Time) {
	if x.resolverCheck || isUnresolved(x) {
		now = time.Now()
	}
	return now
}

// handleLookup handles the result of a lookup; true if the domain's rows can go on.
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

// checkResolver looks up a random name at once, past the queue: it tests whether the resolver works now.
func (d *domains) checkResolver(name string) {
	began := time.Now()
	x := &domain{name: name, resolverCheck: true}
	x.route.Route = d.resolver.Route(d.ctx, name)
	if time.Since(began) > promptLookup {
		x.route.Fact = engine.FactDNSTimeout // slow: a query was lost
	}
	d.results <- x
}

// receive returns the next result, or nil if none comes within wait.
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

// retryDue queues each scheduled domain that is due. The queue has room: pending counts it already.
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

// forget drops the remembered domains; no new domain may be looked up afterwards. Failed domains may still be retried.
func (d *domains) forget() { d.recent, d.older = nil, nil }

// close ends the lookups. ctx must have ended, or no lookup be pending.
func (d *domains) close() {
	close(d.lookupQueue)
	d.all.Wait()
}

// joinMX formats an MX set as it is stored and as the result file shows it.
func joinMX(hosts []string) string { return strings.Join(hosts, " ") }
