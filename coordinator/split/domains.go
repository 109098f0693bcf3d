package split

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
	noSuggestion  bool       // the lists suggest no other domain
	waitingRows   []splitRow // rows that wait for the route
	retries       int        // repeated lookups
	resolverCheck bool       // a test of the resolver without rows: see unresolvedDomains
	isPutOff      bool       // by unresolvedDomains, which counts its rows
}

const maxRemembered = 32 << 10 // domains of a generation; two are kept

// domains finds the route of each domain and remembers it in two generations of bounded size, so that domains in use
// stay. The resolver has its own cache. One goroutine uses it; the goroutines that it starts end with lookupQueue.
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

// get returns a domain that is remembered, or whose route the resolver knows; else nil.
func (d *domains) get(name string) *domain {
	if x := d.recent[name]; x != nil {
		return x
	}
	x := d.older[name]
	if x == nil {
		route, ok := d.resolver.CachedRoute(name)
		if !ok || isUnresolved(route.Fact) { // a lookup that failed is to be repeated, and counted
			return nil
		}
		x = &domain{name: strings.Clone(name), route: chunks.Route{Route: route}}
		d.markResolved(x)
	}
	d.remember(x)
	return x
}

func (d *domains) remember(x *domain) {
	if len(d.recent) >= maxRemembered {
		d.older, d.recent = d.recent, d.older
		clear(d.recent)
	}
	d.recent[x.name] = x
}

func (d *domains) runLookups() {
	for x := range d.lookupQueue {
		if d.ctx.Err() == nil {
			x.route.Route = d.resolver.Route(d.ctx, x.name)
		}
		d.results <- x
	}
}

// startResolverCheck looks up a random name below the last domain that was found, at once and past the queue.
func (d *domains) startResolverCheck() {
	check := &domain{name: "x" + strconv.FormatUint(rand.Uint64(), 36) + "." + d.lastFound, resolverCheck: true}
	d.unresolved.checking = true
	d.pending++
	d.all.Go(func() {
		began := time.Now()
		check.route.Route = d.resolver.Route(d.ctx, check.name)
		if time.Since(began) > promptLookup {
			check.route.Fact = engine.FactDNSTimeout // slow: a query was lost
		}
		d.results <- check
	})
}

// next returns a domain whose route has become known, or nil if there is none within wait.
func (d *domains) next(wait time.Duration) (*domain, error) {
	ud, now := &d.unresolved, time.Now()
	for until := now.Add(wait); ; now = time.Now() {
		for x := ud.nextDue(now); x != nil; x = ud.nextDue(now) {
			d.lookupQueue <- x // it has room: pending counts the domain already
		}
		idle := wait > 0 && d.pending == len(ud.undecided)+len(ud.scheduled)
		if x := ud.release(idle, now); x != nil {
			d.pending--
			return d.markResolved(x), d.ctx.Err()
		}
		next := until
		if len(ud.scheduled) > 0 && ud.scheduled[0].at.Before(next) {
			next = ud.scheduled[0].at
		}
		var x *domain
		if pause := next.Sub(now); len(d.results) > 0 { // only this goroutine receives
			x = <-d.results
		} else if pause > 0 && d.pending > 0 {
			t := time.NewTimer(pause)
			select {
			case x = <-d.results:
			case <-t.C:
			case <-d.ctx.Done():
			}
			t.Stop()
		}
		if err := d.ctx.Err(); err != nil || x == nil && (!now.Before(until) || d.pending == 0) {
			return nil, err
		}
		if x == nil {
			continue
		}
		now = time.Now()
		switch {
		case x.resolverCheck:
			d.pending--
			if isUnresolved(x.route.Fact) {
				ud.checkFailed(now)
			} else {
				ud.checkPassed(now)
			}
		case ud.handleAnswer(x, now):
			d.pending--
			return d.markResolved(x), d.ctx.Err()
		case !ud.checkDue(now):
		case d.lastFound == "" || d.pending == maxWaitingDomains:
			ud.checkFailed(now)
		default:
			d.startResolverCheck()
		}
	}
}

func (d *domains) markResolved(x *domain) *domain {
	x.resolved = true
	if x.route.Fact.Routable() {
		d.lastFound = x.name
	}
	x.route.Mx = strings.Join(x.route.MX, " ") // as it is stored and as the result file shows it
	return x
}
