package prober

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/hostqueue"
	"probity/prober/readyqueue"
	"probity/prober/source"
	"probity/prober/wire"
	"probity/prober/wire/press"
	"probity/store/cache"
)

// ErrStopped is returned by a prober whose Run has ended.
var ErrStopped = errors.New("prober: stopped")

var _ wire.Prober = (*Prober)(nil)

// defaultHold is how long a batch is held if its sender sets no time.
const defaultHold = 60 * time.Second

// lookupBatch is how many rows are looked up in the cache at a time.
const lookupBatch = 128

// Verify implements wire.Prober.
func (p *Prober) Verify(ctx context.Context, req *wire.Batch, hold time.Duration, emit func(wire.Results)) error {
	if err := p.awaitRun(ctx); err != nil {
		return err
	}
	now := time.Now()
	b := &batch{p: p, request: req, caller: newListCaller(p.buffers, req.Details), now: now, budgetWaitCountedAt: now,
		emit: emit, left: len(req.Rows),
		order: p.buffers.getOrder(len(req.Rows)), probes: make([]*probeInFlight, len(req.Rows))}
	if req.Short {
		b.priority = budget.ShortJob
	}
	k := p.cfg.Cache.Keyer()
	for i := range req.Rows {
		press.Yield(i)
		b.order[i] = keyedRow{k.Key(req.Rows[i].Address), i}
	}
	slices.SortFunc(b.order, func(a, b keyedRow) int { return slices.Compare(a.key[:], b.key[:]) })
	b.admit()
	b.collectResults(ctx, orElse(hold, defaultHold)-time.Since(b.now))
	return nil
}

// batch is one batch that is being verified.
type batch struct {
	p       *Prober
	request *wire.Batch
	caller  *caller
	now     time.Time // arrival
	emit    func(wire.Results)
	part    []wire.Result // from the buffer pool; nil between two parts
	// Rows in key order: neighbours are close in the cache, and a domain's rows are shuffled.
	order []keyedRow // until all are admitted
	// Verdicts in the cache that are too old to use, in that order; nil if there are none.
	earlier  []engine.Earlier
	probes   []*probeInFlight // by row; nil if none was needed or it has ended
	priority budget.Priority
	left     int // rows without a result
	deferred int // rows that must be tried again later

	budgetWait          wire.BudgetWait
	budgetWaitCountedAt time.Time                       // when that was counted
	queueWaits          map[*readyqueue.Queue]time.Time // scratch: until when the budget of a queue denies

	same    sameRoute
	pending []*hostqueue.Probe // for same.queue, not yet added
}

type keyedRow struct {
	key cache.Key
	row int
}

// sameRoute holds what consecutive rows of one domain share.
type sameRoute struct {
	route      *engine.Route
	domain     string
	facts      []hostqueue.DomainFact
	source     *source.Source
	queue      *readyqueue.Queue
	resumesAt  time.Time // the queue asks nothing until then
	suppressed bool
}

// admit answers rows from the cache and queues the rest.
func (b *batch) admit() {
	known := b.answerFromCache()
	for i := range b.order {
		press.Yield(i)
		o := &b.order[i]
		row := &b.request.Rows[o.row]
		if known[i] {
			continue
		}
		if due, wait := b.p.retries.pending(o.key); wait != nil && row.Attempt == 0 {
			b.addResult(o.row, &outcome{verdict: *wait, deferred: true, due: due, attempt: 1})
			continue
		}
		b.routeRow(row)
		pr := &probeInFlight{Probe: hostqueue.Probe{Key: o.key, Priority: b.priority, Facts: b.same.facts,
			Policy: engine.Policy{NoSMTP: b.request.NoSMTP || b.same.suppressed ||
				b.p.cfg.SuppressedAddress(row.Address), Details: b.request.Details,
				Schedule: b.p.env.Table.Load().Schedule}}}
		pr.Ev = engine.Evidence{Address: row.Address, Flags: row.Flags, Route: row.Route, Attempts: int(row.Attempt)}
		if b.earlier != nil {
			pr.Ev.Earlier = b.earlier[i]
		}
		if b.same.source == nil {
			pr.Ev.Append(engine.Sighting{Event: engine.EventSourceBlocked, At: b.now})
		}
		if engine.Next(&pr.Ev, pr.Policy).Kind != engine.StepAsk { // it is decided without SMTP
			done := judge(&pr.Probe, b.now)
			b.addResult(o.row, &done)
			continue
		}
		if !b.same.resumesAt.IsZero() {
			b.addResult(o.row, &outcome{returned: true, due: b.same.resumesAt})
			continue
		}
		if b.p.rows.Add(1) > int64(b.p.cfg.MaxRows) || b.same.queue == nil {
			b.p.rows.Add(-1)
			b.addResult(o.row, &outcome{returned: true, due: time.Now().Add(fullWait)})
			continue
		}
		got := b.p.inFlight.join(pr, waiter{b.caller, uint32(o.row), row.Flags})
		b.probes[o.row] = got
		if got == pr {
			b.pending = append(b.pending, &pr.Probe)
			continue
		}
		b.p.rows.Add(-1)
		if q := readyqueue.Of(&got.Probe); q != nil && b.priority > budget.LongJob {
			q.Promote(&got.Probe, b.priority, b.now)
		}
	}
	b.flushQueue()
	b.p.buffers.putOrder(b.order)
	b.order, b.earlier, b.pending = nil, nil, nil
}

// answerFromCache answers rows from the cache and reports which rows of the order those were.
func (b *batch) answerFromCache() []bool {
	known, maxAge := make([]bool, len(b.order)), b.request.MaxAge
	if !b.request.Started.IsZero() { // an answer given since the job's start is fresh enough
		maxAge = max(maxAge, b.now.Sub(b.request.Started))
	}
	if maxAge <= 0 {
		return known
	}
	var room [lookupBatch]cache.Key
	for from := 0; from < len(b.order); from += lookupBatch {
		runtime.Gosched() // as press.Yield does
		keys := room[:0]
		for _, o := range b.order[from:min(from+lookupBatch, len(b.order))] {
			keys = append(keys, o.key)
		}
		err := b.p.cfg.Cache.GetBatch(keys, b.now, func(i int, w engine.Verdict) {
			row := &b.request.Rows[b.order[from+i].row]
			known[from+i] = verdictFits(&w, row.Flags, row.Route, maxAge, b.now)
			if !known[from+i] {
				if b.earlier == nil {
					b.earlier = make([]engine.Earlier, len(b.order))
				}
				b.earlier[from+i] = engine.EarlierOf(&w, b.now) // it contributes to the row's probe
				return
			}
			b.addResult(b.order[from+i].row, &outcome{verdict: w})
			b.p.metrics.hits.Inc()
		})
		if err != nil {
			b.p.cfg.Log.Error("the cache cannot be read: what it has not answered is probed", "rows", len(b.order)-from,
				"error", err)
			break
		}
	}
	return known
}

// fullWait is after what time rows may come again for which there was no room in memory.
const fullWait = 5 * time.Second

// maxQueuePause is how long rows are kept while their queue asks nothing. Else they are returned at once, and
// their callers see what they wait for.
const maxQueuePause = 5 * time.Second

// routeRow finds source and queue of a row. Rows of one domain share them, unless a wide provider is spread by address.
func (b *batch) routeRow(row *wire.Row) {
	prov := row.Route.Provider
	byAddress := len(b.p.sources.List) > 1 && prov.Kind == engine.KindWide &&
		slices.Contains(prov.ByAddress, row.Address.Domain())
	if b.same.route == row.Route && b.same.domain == row.Address.Domain() && !byAddress {
		return
	}
	s := sameRoute{route: row.Route, domain: row.Address.Domain(), facts: b.same.facts,
		source: b.p.sources.Choose(row.Route, row.Address, b.request.EgressOf(row), b.now)}
	if s.domain != b.same.domain {
		s.facts = hostqueue.FactsOf(b.p.cfg.Cache, s.domain, row.Route.Hosts, b.now)
	}
	s.suppressed = b.p.cfg.Suppressed(row.Address.Domain(), row.Route.Hosts)
	if s.source != nil {
		s.queue = b.p.queueOf(row.Route, s.source, b.now)
	}
	if s.queue != nil {
		if e, ok := b.request.UsedByOthers[row.Route.Key]; ok {
			s.queue.SetUsedByOthers(e.Used, b.now.Add(e.Left))
		}
		if b.request.LongBacklog {
			s.queue.RecordLongBacklog(b.now)
		}
		s.resumesAt = s.queue.ResumesAt(maxQueuePause, b.now)
	}
	if s.queue != b.same.queue {
		b.flushQueue()
	}
	b.same = s
}

func (b *batch) flushQueue() {
	if len(b.pending) == 0 {
		return
	}
	b.p.add(b.same.queue, b.pending, time.Now())
	clear(b.pending) // the slice lives until all rows are admitted and must not keep probes alive
	b.pending = b.pending[:0]
}

// collectResults emits finished rows in parts until all are finished or the hold has expired.
func (b *batch) collectResults(ctx context.Context, hold time.Duration) {
	holding := time.NewTimer(hold)
	defer holding.Stop()
	flush := time.NewTimer(b.p.cfg.Flush)
	defer flush.Stop()
	for b.left-len(b.part) > 0 {
		select {
		case <-b.caller.wake:
			if b.caller.waiting()+len(b.part) >= min(b.p.cfg.Part, b.left) {
				b.addFinished(b.caller.takeDone())
			}
		case <-flush.C:
			b.addFinished(b.caller.takeDone())
			b.countBudgetWait(time.Now())
			b.emitPart()
			if b.fewLeft(time.Now()) {
				b.returnUnfinished()
			}
			flush.Reset(b.p.cfg.Flush)
		case <-holding.C:
			b.returnUnfinished()
		case <-ctx.Done():
			b.returnCancelled()
		case <-b.p.stop:
			b.returnUnfinished()
		}
	}
	b.caller.close()
	b.emitResults(wire.Results{Done: true}) // with the last part, empty or not
}

// fewLeft reports whether a few rows at slow hosts delay the deferred ones, which are scheduled only when the batch
// ends. Rows returned for this come again as a batch of their own, in which they are no longer few: a row is returned
// early at most three times.
func (b *batch) fewLeft(now time.Time) bool {
	const few = 20 // less than a twentieth
	return b.deferred > 0 && now.Sub(b.now) >= maxQueuePause && few*b.left < len(b.request.Rows)
}

// addFinished stores what is cacheable and adds all outcomes to the part. It takes ownership of the blocks.
func (b *batch) addFinished(blocks [][]doneRow) {
	for _, got := range blocks {
		b.p.storeResults(got)
		for i := range got {
			b.probes[got[i].row] = nil
			b.addResult(got[i].row, &got[i].outcome)
		}
		b.p.buffers.putBlock(got)
	}
}

// addResult adds a result to the part; a full part is emitted first.
func (b *batch) addResult(row int, o *outcome) {
	if len(b.part) == b.p.cfg.Part {
		b.emitPart()
	}
	if b.part == nil {
		b.part = b.p.buffers.getPart()
	}
	b.part = append(b.part, wire.Result{})
	r := &b.part[len(b.part)-1]
	*r = wire.Result{Row: b.request.Rows[row].Number, Attempt: b.request.Rows[row].Attempt, Verdict: o.verdict}
	switch {
	case o.returned:
		r.Outcome, r.Due = wire.Returned, o.due
	case o.deferred:
		b.deferred++
		r.Outcome = wire.Deferred
		r.Due = o.due
		r.Egress = o.source
		r.Attempt = uint8(min(o.attempt, 255))
	}
	if r.Outcome == wire.Settled {
		b.p.metrics.answered.Add(1)
	}
	r.Verdict.FromCache = o.verdict.VerifiedAt.Before(b.request.Started)
}

// emitPart emits the part unless it is empty.
func (b *batch) emitPart() {
	if len(b.part) > 0 {
		b.emitResults(wire.Results{})
	}
}

func (b *batch) emitResults(r wire.Results) {
	b.left -= len(b.part)
	b.budgetWait.Rows = min(b.budgetWait.Rows, b.left)
	r.Job, r.Chunk, r.Epoch = b.request.Job, b.request.Chunk, b.request.Epoch
	r.Node, r.Details = b.p.cfg.Node, b.request.Details
	r.Rows, r.BudgetWait = b.part, b.budgetWait
	b.emit(r)
	b.p.buffers.putPart(b.part)
	b.part = nil
}

// returnUnfinished returns unfinished rows. Probes that have been sent continue, for the cache.
func (b *batch) returnUnfinished() {
	b.addFinished(b.caller.close())
	now := time.Now()
	due := map[*readyqueue.Queue]time.Time{}
	for row, pr := range b.probes {
		if pr == nil {
			continue
		}
		q := readyqueue.Of(&pr.Probe)
		if _, ok := due[q]; !ok && q != nil {
			due[q] = q.BudgetAllowsAt(b.priority, now)
		}
		if b.p.inFlight.removeWaiter(&pr.Probe, b.caller) {
			b.p.rows.Add(-1)
		}
		b.probes[row] = nil
		b.addResult(row, &outcome{returned: true, due: due[q]})
	}
}
