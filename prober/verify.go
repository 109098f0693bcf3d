package prober

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/press"
	"probity/store/cache"
)

// ErrStopped is the answer of a prober whose Run has ended.
var ErrStopped = errors.New("prober: stopped")

var _ wire.Prober = (*Prober)(nil)

// defaultHold is how long a batch is held where its sender names no time.
const defaultHold = 60 * time.Second

// lookUp is how many rows are looked up in the cache at a time.
const lookUp = 128

// Verify implements wire.Prober.
func (p *Prober) Verify(ctx context.Context, b *wire.Batch, hold time.Duration, emit func(wire.Results)) error {
	if len(b.Rows) > wire.MaxRows {
		return fmt.Errorf("prober: a batch of %d rows, at most %d are taken", len(b.Rows), wire.MaxRows)
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	v := p.begin(b, emit)
	v.admit()
	v.collect(ctx, orElse(hold, defaultHold)-time.Since(v.now))
	return nil
}

// verification is one batch on its way.
type verification struct {
	p    *Prober
	b    *wire.Batch
	r    *run
	now  time.Time // when it came
	emit func(wire.Results)
	part []wire.Result // from the prober's spare ones; nil between two parts
	// Rows in the order of their keys: what is asked together lies together in the cache, and a domain's rows are shuffled.
	order []keyed // until all are admitted
	// What the cache has of rows in that order for which it is too old; nil where there is none.
	earlier []engine.Earlier
	probes  []*probe // by row; nil where none was needed or it is over
	who     priority
	left    int // rows without a result
	putOff  int // rows that are to be tried again

	held    wire.Held
	counted time.Time           // when held was
	waits   map[*lane]time.Time // of countHeld, until when

	same  sameRoute
	batch []*probe // for same.lane, not yet added
}

type keyed struct {
	key cache.Key
	row int
}

// sameRoute is what need not be found out again while rows of one domain follow each other.
type sameRoute struct {
	route      *engine.Route
	domain     string
	facts      []domainFact
	egress     *egress
	lane       *lane
	away       time.Time // until when the lane asks nothing
	suppressed bool
}

func (p *Prober) begin(b *wire.Batch, emit func(wire.Results)) *verification {
	now := time.Now()
	v := &verification{p: p, b: b, r: newRun(p.spare), now: now, counted: now, emit: emit, left: len(b.Rows),
		order: p.spare.order(len(b.Rows)), probes: make([]*probe, len(b.Rows))}
	if b.Short {
		v.who = short
	}
	k := p.cfg.Cache.Keyer()
	for i := range b.Rows {
		press.Yield(i)
		v.order[i] = keyed{k.Key(b.Rows[i].Address), i}
	}
	slices.SortFunc(v.order, func(a, b keyed) int { return slices.Compare(a.key[:], b.key[:]) })
	return v
}

// admit answers what is known and queues the rest.
func (v *verification) admit() {
	known := v.known()
	for i := range v.order {
		press.Yield(i)
		o := &v.order[i]
		row := &v.b.Rows[o.row]
		if known[i] {
			continue
		}
		if due, wait := v.p.retries.pending(o.key); wait != nil && row.Attempt == 0 {
			v.put(o.row, &outcome{verdict: *wait, deferred: true, due: due, attempt: 1})
			continue
		}
		v.queue(i, row)
	}
	v.flushLane()
	v.p.spare.putOrder(v.order)
	v.order, v.earlier, v.batch = nil, nil, nil
}

// known answers what the cache can, and says which rows of the order those were.
func (v *verification) known() []bool {
	known, maxAge := make([]bool, len(v.order)), v.b.MaxAge
	if !v.b.Started.IsZero() { // what was asked for the list itself, while a row was not here, is as fresh as any list can want
		maxAge = max(maxAge, v.now.Sub(v.b.Started))
	}
	if maxAge <= 0 {
		return known
	}
	var room [lookUp]cache.Key
	for from := 0; from < len(v.order); from += lookUp {
		runtime.Gosched() // as press.Yield does
		keys := room[:0]
		for _, o := range v.order[from:min(from+lookUp, len(v.order))] {
			keys = append(keys, o.key)
		}
		err := v.p.cfg.Cache.GetBatch(keys, v.now, func(i int, w engine.Verdict) {
			row := &v.b.Rows[v.order[from+i].row]
			if known[from+i] = fits(&w, row.Flags, row.Route, maxAge, v.now); !known[from+i] {
				v.remember(from+i, &w)
				return
			}
			v.put(v.order[from+i].row, &outcome{verdict: w})
			v.p.metrics.hits.Inc()
		})
		if err != nil {
			v.p.cfg.Log.Error("the cache cannot be read: what it has not answered is probed", "rows", len(v.order)-from, "error", err)
			break
		}
	}
	return known
}

// remember notes what an answer that will not do contributes to the probe of the row.
func (v *verification) remember(i int, kept *engine.Verdict) {
	if v.earlier == nil {
		v.earlier = make([]engine.Earlier, len(v.order))
	}
	v.earlier[i] = engine.EarlierOf(kept, v.now)
}

// queue makes the probe of a row, the i-th of the order, unless it is over before anything is asked.
func (v *verification) queue(i int, row *wire.Row) {
	o := &v.order[i]
	v.route(row)
	pr := &probe{key: o.key, who: v.who, facts: v.same.facts, policy: engine.Policy{NoSMTP: v.b.NoSMTP || v.same.suppressed || v.p.cfg.SuppressedAddress(row.Address), Schedule: v.p.table.Load().Schedule}}
	pr.ev = engine.Evidence{Address: row.Address, Flags: row.Flags, Route: row.Route, Attempts: int(row.Attempt)}
	if v.earlier != nil {
		pr.ev.Earlier = v.earlier[i]
	}
	if v.same.egress == nil {
		pr.ev.Append(engine.Sighting{Event: engine.EventSourceBlocked, At: v.now})
	}
	if engine.Next(&pr.ev, pr.policy, v.now).Kind != engine.StepAsk {
		done := pr.conclude(v.now)
		v.put(o.row, &done)
		return
	}
	if !v.same.away.IsZero() {
		v.put(o.row, &outcome{later: true, due: v.same.away})
		return
	}
	if v.p.rows.Add(1) > int64(v.p.cfg.MaxRows) || v.same.lane == nil {
		v.p.rows.Add(-1)
		v.put(o.row, &outcome{later: true, due: time.Now().Add(fullWait)})
		return
	}
	got := v.p.flight.join(pr, asker{v.r, uint32(o.row), row.Flags})
	v.probes[o.row] = got
	if got != pr {
		v.p.rows.Add(-1)
		if l := got.lane.Load(); l != nil && v.who > bulk {
			l.promote(got, v.who, v.now)
		}
		return
	}
	v.batch = append(v.batch, pr)
}

// fullWait is when rows may come again that found no room in memory.
const fullWait = 5 * time.Second

// route finds identity and lane of a row; rows of one domain share them, but where a wide provider is spread by address.
func (v *verification) route(row *wire.Row) {
	prov := row.Route.Provider
	byAddress := len(v.p.egress.list) > 1 && prov.Kind == engine.KindWide && slices.Contains(prov.ByAddress, row.Address.Domain())
	if v.same.route == row.Route && v.same.domain == row.Address.Domain() && !byAddress {
		return
	}
	s := sameRoute{route: row.Route, domain: row.Address.Domain(), facts: v.same.facts, egress: v.p.egress.choose(row.Route, row.Address, v.b.Egress, v.now)}
	if s.domain != v.same.domain {
		s.facts = v.p.factsOf(s.domain, row.Route.Hosts, v.now)
	}
	s.suppressed = v.p.cfg.Suppressed(row.Address.Domain(), row.Route.Hosts)
	if s.egress != nil {
		s.lane = v.p.laneOf(row.Route, s.egress, v.now)
	}
	if s.lane != nil {
		if e, ok := v.b.Elsewhere[row.Route.Key]; ok {
			s.lane.told(e, v.now)
		}
		if v.b.Steady {
			s.lane.steady(v.now)
		}
		s.away = s.lane.away(v.now)
	}
	if s.lane != v.same.lane {
		v.flushLane()
	}
	v.same = s
}

func (v *verification) flushLane() {
	if len(v.batch) == 0 {
		return
	}
	v.p.add(v.same.lane, v.batch, time.Now())
	clear(v.batch) // it lives until all are admitted: no probe shall for its sake
	v.batch = v.batch[:0]
}

// collect hands on what is done, in parts, until all is or time is up.
func (v *verification) collect(ctx context.Context, hold time.Duration) {
	holding := time.NewTimer(hold)
	defer holding.Stop()
	flush := time.NewTimer(v.p.cfg.Flush)
	defer flush.Stop()
	for v.left-len(v.part) > 0 {
		select {
		case <-v.r.wake:
			if v.r.waiting()+len(v.part) >= min(v.p.cfg.Part, v.left) {
				v.drain()
			}
		case <-flush.C:
			v.drain()
			v.countHeld(time.Now())
			v.send(false)
			if v.straggles(time.Now()) {
				v.abandon()
			}
			flush.Reset(v.p.cfg.Flush)
		case <-holding.C:
			v.abandon()
		case <-ctx.Done():
			v.callHome()
		case <-v.p.stop:
			v.abandon()
		}
	}
	v.r.close()
	v.send(true)
}

// straggles reports that few rows keep many: those that were put off are planned only when the batch is home, so a few at slow
// hosts shall not hold them. What came home so comes again as a batch of its own, of which it is not a small part: a row
// comes home early three times at the most.
func (v *verification) straggles(now time.Time) bool {
	const few = 20 // less than a twentieth
	return v.putOff > 0 && now.Sub(v.now) >= worthHolding && few*v.left < len(v.b.Rows)
}

// drain takes what sessions have handed over.
func (v *verification) drain() {
	v.settle(v.r.take())
}

// settle keeps what may be kept and puts all into parts. It takes the blocks over.
func (v *verification) settle(blocks [][]done) {
	for _, got := range blocks {
		v.p.keep(got)
		for i := range got {
			v.probes[got[i].row] = nil
			v.put(got[i].row, &got[i].o)
		}
		v.p.spare.putBlock(got)
	}
}

// put adds a result to the part, which goes out when it is full.
func (v *verification) put(row int, o *outcome) {
	if len(v.part) == v.p.cfg.Part {
		v.send(false)
	}
	if v.part == nil {
		v.part = v.p.spare.part()
	}
	v.part = append(v.part, wire.Result{})
	r := &v.part[len(v.part)-1]
	*r = wire.Result{Row: v.b.Rows[row].Number, Attempt: v.b.Rows[row].Attempt, Verdict: o.verdict}
	switch {
	case o.later:
		r.Outcome, r.Due, r.Egress = wire.Later, o.due, v.b.Egress
	case o.deferred:
		v.putOff++
		r.Outcome, r.Due, r.Egress, r.Attempt = wire.Deferred, o.due, o.egress, uint8(min(o.attempt, 255))
	}
	if r.Outcome == wire.Settled {
		v.p.metrics.answered.Add(1)
	}
	r.Verdict.FromCache = o.verdict.VerifiedAt.Before(v.b.Started)
}

func (v *verification) send(last bool) {
	if len(v.part) == 0 && !last {
		return
	}
	v.left -= len(v.part)
	v.held.Rows = min(v.held.Rows, v.left)
	v.emit(wire.Results{Job: v.b.Job, Chunk: v.b.Chunk, Epoch: v.b.Epoch, Rows: v.part, Held: v.held, Done: last})
	v.p.spare.putPart(v.part)
	v.part = nil
}

// abandon sends home what is not done. Who is being asked is asked to the end, for the cache.
func (v *verification) abandon() {
	v.settle(v.r.close())
	now := time.Now()
	due := map[*lane]time.Time{}
	for row, pr := range v.probes {
		if pr == nil {
			continue
		}
		l := pr.lane.Load()
		if _, ok := due[l]; !ok && l != nil {
			due[l] = l.later(v.who, now)
		}
		if v.p.flight.leave(pr, v.r) {
			v.p.rows.Add(-1)
		}
		v.probes[row] = nil
		v.put(row, &outcome{later: true, due: due[l]})
	}
}
