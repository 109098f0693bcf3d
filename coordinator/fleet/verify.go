package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"probity/coordinator/shard"
	"probity/engine"
	"probity/prober/wire"
)

// part is the rows of a batch that go to one node, for all of its identities: to send and to follow a part costs as
// much as many rows.
type part struct {
	batch wire.Batch
	node  *member
	keys  []narrowKey // the narrow keys of its rows
	// at a shared provider what these send in half a minute, so that the rows of two jobs take turns
	maxRows int
}

// minPartRows is the fewest rows of a source that are worth a batch of their own.
const minPartRows = 64

// narrowKey is a key that one source at a time probes, a route of it, and that source.
type narrowKey struct {
	key      shard.Key
	route    *engine.Route
	identity string
}

// ownerChanged reports whether a narrow key of the part has another owner now.
func (p *part) ownerChanged(r *membership) bool {
	for _, k := range p.keys {
		if id, ok := ownerIn(r.set, k.key, k.route.Provider); ok && id.Name != k.identity {
			return true
		}
	}
	return false
}

// identityOf is the identity that asks a row of the part. Few rows need it: those for which their source is blocked.
func (p *part) identityOf(number uint32) string {
	at := slices.IndexFunc(p.batch.Rows, func(row wire.Row) bool { return row.Number == number })
	return p.batch.EgressOf(&p.batch.Rows[at])
}

// Verify implements wire.Prober. Rows whose owner is not ready are returned at once.
func (f *Fleet) Verify(ctx context.Context, b *wire.Batch, hold time.Duration, emit func(wire.Results)) error {
	s := batchSplitter{f: f, b: b, r: f.membership.Load(), now: time.Now(), parts: map[*member]*part{}}
	for i := range b.Rows {
		s.assign(&b.Rows[i])
	}
	c := &resultCollector{b: b, emit: emit, waits: map[*part]wire.BudgetWait{}}
	if len(s.returned) > 0 {
		c.emitPart(nil, wire.BudgetWait{}, s.returned)
	}
	var parts sync.WaitGroup
	for _, p := range s.all {
		parts.Go(func() { f.verifyPart(ctx, p, hold, c) })
	}
	parts.Wait()
	emit(wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Done: true})
	return nil
}

// verifyPart sends a part to its node and emits the results.
func (f *Fleet) verifyPart(ctx context.Context, p *part, hold time.Duration, c *resultCollector) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.mu.Lock()
	moved := p.ownerChanged(f.membership.Load())
	if !moved {
		p.node.used.Store(true)
		f.parts[p] = cancel
	}
	f.mu.Unlock()
	if moved { // nothing is sent
		c.emitPart(p, wire.BudgetWait{}, returnRows(p.batch.Rows, time.Now()))
		return
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.parts, p)
	}()
	lastWork := &p.node.lastWork
	lastWork.Store(time.Now().UnixNano())
	err := p.node.client.Verify(ctx, &p.batch, hold, func(r wire.Results) {
		lastWork.Store(time.Now().UnixNano())
		c.emitPart(p, r.BudgetWait, f.redirectBlocked(p, r.Rows))
	})
	if err == nil {
		return
	}
	if !errors.Is(err, wire.ErrGone) {
		f.cfg.Log.Warn("a node did not finish its rows; they are asked again", "job", c.b.Job, "rows",
			len(p.batch.Rows), "error", err)
	}
	now, rows := time.Now(), p.batch.Rows
	if lost, ok := errors.AsType[*wire.Lost](err); ok { // else nothing was sent to the node
		rows = nil
		for i := range p.batch.Rows {
			if !lost.Rows[i] {
				continue
			}
			row := &p.batch.Rows[i]
			rows = append(rows, *row)
			if !row.Route.Provider.Shared() {
				f.usage.addUnanswered(row.Route, p.batch.EgressOf(row), now)
			}
		}
	}
	c.emitPart(p, wire.BudgetWait{}, returnRows(rows, now.Add(absentWait)))
}

// returnRows returns rows that a node has not answered, as Returned and due at the given time.
func returnRows(rows []wire.Row, due time.Time) []wire.Result {
	returned := make([]wire.Result, len(rows))
	for i := range rows {
		returned[i] = wire.Result{Row: rows[i].Number, Attempt: rows[i].Attempt, Outcome: wire.Returned, Due: due}
	}
	return returned
}

// resultCollector joins the results of parts.
type resultCollector struct {
	b *wire.Batch

	mu    sync.Mutex // guards all below
	emit  func(wire.Results)
	waits map[*part]wire.BudgetWait // what each part last reported, if that was more than nothing
}

// emitPart emits results of a part, with which of the rows of all parts wait for a budget.
func (c *resultCollector) emitPart(p *part, waits wire.BudgetWait, rows []wire.Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waits.Rows > 0 {
		c.waits[p] = waits
	} else {
		delete(c.waits, p) // of thousands of parts, those without such rows are not counted at each result
	}
	var all wire.BudgetWait
	for _, w := range c.waits {
		all.Rows += w.Rows
		if all.Until.IsZero() || w.Until.Before(all.Until) {
			all.Until = w.Until
		}
	}
	r := wire.Results{Job: c.b.Job, Chunk: c.b.Chunk, Epoch: c.b.Epoch, Rows: rows, BudgetWait: all,
		Details: c.b.Details}
	if p != nil {
		r.Node = p.node.name
	}
	c.emit(r)
}

// batchSplitter splits the rows of a batch into parts by the node of their owner.
type batchSplitter struct {
	f        *Fleet
	b        *wire.Batch
	r        *membership
	now      time.Time
	parts    map[*member]*part // the last of each node
	all      []*part
	returned []wire.Result

	// Of the previous row; reused while rows of one domain follow each other.
	route      *engine.Route
	domain     string
	suppressed bool
	key        shard.Key
	narrow     bool
	owner      owner
	part       *part // of owner, if it has one
}

// assign puts a row into a part of its owner, or among the returned rows.
func (s *batchSplitter) assign(row *wire.Row) {
	provider, domain := row.Route.Provider, row.Address.Domain()
	key, narrow := s.key, s.narrow
	if row.Route != s.route || domain != s.domain || !narrow {
		key, narrow = keyOf(row.Route, row.Address)
	}
	if row.Route != s.route || domain != s.domain {
		s.suppressed = s.f.cfg.Suppressed(domain, row.Route.Hosts)
	}
	if row.Route != s.route || key != s.key {
		s.owner = s.r.ownerOf(key, narrow, provider, s.b.EgressOf(row), s.now)
		s.part = s.parts[s.owner.node]
	}
	s.route = row.Route
	s.domain = domain
	s.key = key
	s.narrow = narrow
	if s.suppressed || s.f.cfg.SuppressedAddress(row.Address) {
		v := verdictFor(engine.ReasonSMTPNotChecked, RuleSuppressed, row.Flags, row.Route, s.now)
		s.returned = append(s.returned, wire.Result{Row: row.Number, Attempt: row.Attempt, Verdict: v})
		return
	}
	if !s.owner.ready() {
		due := s.now.Add(absentWait)
		if s.owner.readyAt.After(s.now) {
			due = s.owner.readyAt
		}
		s.returned = append(s.returned, wire.Result{Row: row.Number, Attempt: row.Attempt, Outcome: wire.Returned,
			Due: due})
		return
	}
	p := s.part
	if p == nil || len(p.batch.Rows) >= p.maxRows {
		p = &part{maxRows: wire.MaxRows, batch: *s.b, node: s.owner.node}
		p.batch.Egress = s.r.identities[s.owner.node]
		if limit := provider.Limits.RecipientsPerMinute; provider.Shared() && limit != 0 {
			// Rows of narrow routes are spread over many, or wait only for their own.
			p.maxRows = min(wire.MaxRows, provider.Sources(len(p.batch.Egress))*max(minPartRows, limit/2))
		}
		p.batch.Class = s.b.Class + "#" + s.b.Job // a window of its own at each node: no job waits for another's credit
		each := len(s.b.Rows) / max(1, len(s.r.identities))
		p.batch.Rows = make([]wire.Row, 0, min(p.maxRows, each+each/4+1)) // few parts outgrow it
		s.parts[s.owner.node] = p
		s.all = append(s.all, p)
		s.part = p
	}
	if n := len(p.keys); narrow && (n == 0 || p.keys[n-1].key != key || p.keys[n-1].route != row.Route) {
		p.keys = append(p.keys, narrowKey{key, row.Route, s.owner.identity})
		if used := s.f.usage.usedByOthers(row.Route, s.owner.identity, s.now); used.Used != 0 {
			if p.batch.UsedByOthers == nil {
				p.batch.UsedByOthers = map[string]wire.UsedByOthers{}
			}
			p.batch.UsedByOthers[row.Route.Key] = used
		}
	}
	sent := *row
	sent.Egress = s.owner.at
	if pinned := s.b.EgressOf(row); pinned != "" && pinned != s.owner.identity {
		sent.Attempt = 0 // the source of earlier attempts is gone: this is a first contact
	}
	p.batch.Rows = append(p.batch.Rows, sent)
}

// verdictFor is the verdict of an address that is not probed.
func verdictFor(reason engine.Reason, rule string, flags engine.Flags, route *engine.Route,
	now time.Time) engine.Verdict {
	v := engine.VerdictFor(reason, rule, flags, now)
	v.ProviderID, v.ProviderName, v.MX = route.Provider.ID, route.Provider.Name, route.MX
	return v
}

// Awaited is until when rows may wait for absent sources: until others have taken their shares and may start. Zero, or
// a time in the past, if no rows wait.
func (f *Fleet) Awaited() time.Time {
	r := f.membership.Load()
	until := r.startDelayEnd
	for _, former := range r.formerSets {
		if former.closedAt.After(until) {
			until = former.closedAt
		}
	}
	if _, at := r.absentOwners(); at.After(until) {
		until = at
	}
	return until
}

// Sources returns how many identities take work.
func (f *Fleet) Sources() int { return f.membership.Load().set.Len() }
