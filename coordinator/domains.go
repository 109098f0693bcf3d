package coordinator

import (
	"context"
	"strings"
	"sync"
	"time"
)

// domain is what the split knows of one domain.
type domain struct {
	name     string
	via      via
	ready    bool       // the route is known
	named    bool       // via.mx is set
	suggests tri        // whether the lists suggest another domain
	rows     []splitRow // waiting for the route
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
	ended      bool // line is closed
	all        sync.WaitGroup
}

func newDomains(ctx context.Context, r Resolver, lookups int) *domains {
	return &domains{
		ctx: ctx, resolver: r, young: map[string]*domain{}, lookups: lookups,
		line: make(chan *domain, waitingDomains), known: make(chan *domain, waitingDomains),
	}
}

// get is what is known of a domain, nil when nobody has asked.
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
		d.old, d.young = d.young, map[string]*domain{}
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
	select {
	case x := <-d.known:
		return d.learn(x), d.ctx.Err()
	default:
	}
	if wait <= 0 || d.asking == 0 {
		return nil, d.ctx.Err()
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case x := <-d.known:
		return d.learn(x), d.ctx.Err()
	case <-t.C:
		return nil, nil
	case <-d.ctx.Done():
		return nil, d.ctx.Err()
	}
}

func (d *domains) learn(x *domain) *domain {
	d.asking--
	x.ready = true
	return x
}

// noMore says that nothing more will be asked for: lookups end with what is in line, and what was learnt is forgotten.
func (d *domains) noMore() {
	if !d.ended {
		d.ended = true
		close(d.line)
		d.young, d.old = nil, nil
	}
}

// close ends the lookups; ctx must have ended or nothing be asked.
func (d *domains) close() {
	d.noMore()
	d.all.Wait()
}

// joinMX is an MX set as the names keep it and the result file shows it.
func joinMX(hosts []string) string { return strings.Join(hosts, " ") }
