package prober

import (
	"net/netip"
	"strings"
	"time"

	"probity/engine"
)

// ring is a first-in-first-out queue that reuses its memory.
type ring[T any] struct {
	items []T
	head  int
	n     int
}

func (r *ring[T]) push(v T) {
	r.grow()
	r.items[(r.head+r.n)%len(r.items)] = v
	r.n++
}

// unshift puts v before the oldest.
func (r *ring[T]) unshift(v T) {
	r.grow()
	r.head = (r.head + len(r.items) - 1) % len(r.items)
	r.items[r.head] = v
	r.n++
}

// grow makes room for one more.
func (r *ring[T]) grow() {
	if r.n < len(r.items) {
		return
	}
	grown := make([]T, max(4, 2*r.n))
	for i := range r.n {
		grown[i] = r.items[(r.head+i)%len(r.items)]
	}
	r.items, r.head = grown, 0
}

// pop removes the oldest; the ring must not be empty.
func (r *ring[T]) pop() T {
	var none T
	v := r.items[r.head]
	r.items[r.head] = none
	r.head = (r.head + 1) % len(r.items)
	if r.n--; r.n == 0 {
		*r = ring[T]{}
	}
	return v
}

func (r *ring[T]) peek() T { return r.items[r.head] }

// promote puts the newest before the oldest; the ring must not be empty.
func (r *ring[T]) promote() {
	last := (r.head + r.n - 1) % len(r.items)
	v := r.items[last]
	var none T
	r.items[last] = none
	r.n--
	r.unshift(v)
}

// without takes v out of a ring; the others keep their order.
func without[T comparable](r *ring[T], v T) {
	for n := r.n; n > 0; n-- {
		if other := r.pop(); other != v {
			r.push(other)
		}
	}
}

// place is one domain at one host: the addresses that wait to be asked there, and what its decoy has shown.
// Guarded by the lane's mutex.
type place struct {
	domain string
	host   string
	group  *group
	queues [priorities]list
	ringed [priorities]bool // in the group's ring of that priority
	flying int              // recipients being asked, the decoy counted
	again  int              // probes in the group's list of that name
	decoy  decoy
}

// group is the places at one host of one MX set: what one connection may serve at one time. Guarded by the lane's mutex.
type group struct {
	key    string
	host   string
	domain string // of some place, the last that was made
	rings  [priorities]ring[*place]
	wanted [priorities]ring[*place] // places whose decoy is wanted, by decoy.turn
	queued [priorities]int          // probes in the queues and in again
	again  list                     // probes whose connection was closed upon them: first on the next one
	cutoff [priorities]ring[*place] // places whose decoy met the same
	places int
	ready  [priorities]bool // in the lane's ring of that priority

	sessions  int
	healthy   int              // sessions that have had a recipient answered
	idle      []*session       // those that wait for more
	outside   []*turn          // those that wait at the turnstile
	at        netip.Addr       // where its host was found; the zero Addr when it was not
	found     time.Time        // when it was looked up last
	finding   bool             // it is being looked up
	calls     [priorities]bool // it calls at its address
	waits     time.Time        // since when it leaves it to others to come
	tired     bool             // it has done so for long enough
	batch     int              // most recipients of a transaction, learnt from closes; 0 for no bound
	bore      int              // recipients that the host answered before it closed a connection in the midst of others; 0 for no such host
	oneDomain bool             // learnt: recipients of one transaction share their domain
	apart     bool             // learnt: a transaction is not taken before the one before it was answered
	hot       bool             // its acceptances are doubted: see hearing.heat
	near      bool             // they are doubted too, for what is under way over other routes
	warm      bool             // they may be, when those who are under way have been heard
	volleys   []volley         // who is under way
	// By the lane's count of answers: acceptances up to refusedAll were heard before somebody was asked who was then refused; of
	// those after base, which are of the transaction heard last, the ones before refusedNow stand before a refusal there.
	refusedAll, base, refusedNow uint64
	doubted                      []*place // whose accepted probes wait for a refusal of anybody's
	suspects                     ring[suspect]
	plain                        bool     // TLS failed here: speak in clear
	knock                        bool     // no probe waits in it: see health.tryAt
	blocked                      bool     // its destination has no room: in the lane's list until then
	deny                         priority // the highest that is blocked
	until                        time.Time
	told                         bool // until is a budget's word, not only the bound of the wait for one
}

// hostSet tells apart the groups of a lane: a connection serves one host of one MX set at one time.
func hostSet(host string, hosts []string) string {
	if len(hosts) == 1 {
		return host
	}
	n := len(host)
	for _, h := range hosts {
		n += 1 + len(h)
	}
	key := append(make([]byte, 0, n), host...)
	for _, h := range hosts {
		key = append(append(key, ' '), h...)
	}
	return string(key)
}

// hostsOf is the MX set of a group, by its key.
func hostsOf(key string) []string {
	hosts := strings.Fields(key)
	if len(hosts) > 1 {
		return hosts[1:]
	}
	return hosts
}

// placeKey finds a place in its lane.
type placeKey struct{ domain, host string }

// placeOf finds or makes the place of a domain at a host.
func (l *lane) placeOf(ev *engine.Evidence, host string) *place {
	k := placeKey{ev.Address.Domain(), host}
	if pl := l.places[k]; pl != nil {
		return pl
	}
	key := hostSet(host, ev.Route.Hosts)
	g := l.groups[key]
	if g == nil {
		g = &group{key: key, host: host}
		set(&l.groups, key, g)
	}
	k.domain = strings.Clone(k.domain) // it outlives the row, whose text others share
	pl := &place{domain: k.domain, host: host, group: g}
	g.places++
	g.domain = k.domain
	set(&l.places, k, pl)
	return pl
}

// enqueue puts a probe where it waits for its turn.
func (l *lane) enqueue(p *probe, pl *place, front bool) {
	p.place = pl
	pl.group.queued[p.who]++
	l.queued[p.who]++
	q := &pl.queues[p.who]
	if p.cut > 0 {
		q = &pl.group.again
		pl.again++
	}
	if front {
		q.unshift(p)
	} else {
		q.push(p)
	}
	if p.cut > 0 {
		l.ringGroup(pl.group, p.who)
		return
	}
	l.ringPlace(pl, p.who)
}

func (l *lane) ringPlace(pl *place, who priority) {
	if !pl.ringed[who] {
		pl.ringed[who] = true
		pl.group.rings[who].push(pl)
	}
	l.ringGroup(pl.group, who)
}

func (l *lane) ringGroup(g *group, who priority) {
	if who != single && g.found.IsZero() && !g.finding && l.shares(g) {
		l.seek(g)
	}
	if !g.ready[who] {
		g.ready[who] = true
		l.ready[who].push(g)
	}
	l.call(g, who)
}

// dequeue takes a probe out of its queue. Its place stays in the ring until the ring comes to it.
func (l *lane) dequeue(p *probe) {
	pl := p.place
	switch p.in {
	case &pl.group.again:
		pl.again--
		fallthrough
	case &pl.queues[p.who]:
		pl.group.queued[p.who]--
		l.queued[p.who]--
	}
	p.in.remove(p)
}

// waiting is how many probes and decoys of a group wait.
func (g *group) waiting() int {
	return g.queued[bulk] + g.queued[short] + g.queued[single] + g.decoys()
}

// urgent reports a single that waits, for its own turn or for its decoy.
func (g *group) urgent() bool { return g.queued[single]+g.decoysFor(single) > 0 }

// tidy forgets a place that nothing needs, and its group with its last place.
func (l *lane) tidy(pl *place) {
	if pl.queues[bulk].n+pl.queues[short].n+pl.queues[single].n+pl.decoy.waiting.n+pl.flying+pl.again > 0 || pl.ringed != [priorities]bool{} || pl.decoy.state.busy() {
		return
	}
	k := placeKey{pl.domain, pl.host}
	if l.places[k] != pl {
		return
	}
	if delete(l.places, k); len(l.places) == 0 {
		l.places = nil // of 50,000 lanes, few have more than one
	}
	pl.group.places--
	l.tidyGroup(pl.group)
}

func (l *lane) tidyGroup(g *group) {
	if g.places == 0 && g.sessions == 0 && g.ready == [priorities]bool{} && !g.blocked && l.groups[g.key] == g {
		if delete(l.groups, g.key); len(l.groups) == 0 {
			l.groups = nil
		}
		l.hangsUp(g)
	}
}
