package fleet

import (
	"context"
	"errors"
	"sync"
	"time"

	"probity/coordinator/shard"
	"probity/engine"
	"probity/prober/wire"
)

// part is the rows of a batch that go to one identity.
type part struct {
	batch   wire.Batch
	owner   owner
	pinned  bool
	keys    []narrowKey // the narrow keys of its rows
	maxRows int
}

// narrowKey is a key that one source at a time probes, and its provider.
type narrowKey struct {
	key      shard.Key
	provider *engine.Provider
}

// minPartRows is the fewest rows that are worth a batch of their own.
const minPartRows = 64

// maxPartRows bounds the rows of a part. At a shared provider it is what one source may send in half a minute, so that the rows of
// two jobs take turns. Rows of narrow routes are spread over many routes, or wait only for their own.
func maxPartRows(p *engine.Provider) int {
	if p == nil || !p.Shared() || p.Limits.RecipientsPerMinute == 0 {
		return wire.MaxRows
	}
	return min(wire.MaxRows, max(minPartRows, p.Limits.RecipientsPerMinute/2))
}

// ownerChanged reports that a narrow key of the part has another owner now.
func (p *part) ownerChanged(r *membership) bool {
	for _, k := range p.keys {
		if id, ok := ownerIn(r.set, k.key, k.provider); ok && id.Name != p.owner.identity {
			return true
		}
	}
	return false
}

// Verify implements wire.Prober. Rows whose owner is not ready are returned at once.
func (f *Fleet) Verify(ctx context.Context, b *wire.Batch, hold time.Duration, emit func(wire.Results)) error {
	s := batchSplitter{f: f, b: b, r: f.membership.Load(), now: time.Now(), parts: map[string]*part{}}
	for i := range b.Rows {
		s.assign(&b.Rows[i])
	}
	c := &resultCollector{b: b, emit: emit, held: map[*part]wire.Held{}}
	c.emitPart(nil, wire.Held{}, s.returned)
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
	if !f.startPart(p, cancel) {
		c.emitPart(p, wire.Held{}, p.unansweredRows(wire.ErrGone, time.Now()))
		return
	}
	defer f.endPart(p)
	lastWork := &p.owner.node.lastWork
	lastWork.Store(time.Now().UnixNano())
	err := p.owner.node.client.Verify(ctx, &p.batch, hold, func(r wire.Results) {
		lastWork.Store(time.Now().UnixNano())
		c.emitPart(p, r.Held, f.redirectBlocked(p, r.Rows))
	})
	if err == nil {
		return
	}
	if !errors.Is(err, wire.ErrGone) {
		f.cfg.Log.Warn("a node did not finish its rows; they are asked again", "job", c.b.Job, "rows", len(p.batch.Rows), "error", err)
	}
	returned := p.unansweredRows(err, time.Now().Add(absentWait))
	f.countLostRows(p, returned)
	c.emitPart(p, wire.Held{}, returned)
}

// startPart registers a part, so that it can be cancelled, and marks its node as used. It returns false if the owner has changed
// already: nothing was sent.
func (f *Fleet) startPart(p *part, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.ownerChanged(f.membership.Load()) {
		return false
	}
	p.owner.node.used.Store(true)
	f.parts[p] = cancel
	return true
}

func (f *Fleet) endPart(p *part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.parts, p)
}

// unansweredRows returns the rows that a failed node has not answered, as Returned and due at the given time.
func (p *part) unansweredRows(err error, due time.Time) []wire.Result {
	var lost *wire.Lost
	some := errors.As(err, &lost)
	var returned []wire.Result
	for i := range p.batch.Rows {
		row := &p.batch.Rows[i]
		if some {
			if _, waits := lost.Rows[row.Number]; !waits {
				continue
			}
		}
		returned = append(returned, wire.Result{Row: row.Number, Attempt: row.Attempt, Outcome: wire.Returned, Due: due})
	}
	return returned
}

// resultCollector joins the results of parts.
type resultCollector struct {
	b *wire.Batch

	mu   sync.Mutex // guards all below
	emit func(wire.Results)
	held map[*part]wire.Held // what each part last reported
}

// emitPart emits results of a part, with what all parts hold. Returned rows keep the egress source of the batch, not of the part.
func (c *resultCollector) emitPart(p *part, held wire.Held, rows []wire.Result) {
	if p == nil && len(rows) == 0 {
		return
	}
	for i := range rows {
		if rows[i].Outcome == wire.Returned {
			rows[i].Egress = c.b.Egress
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p != nil {
		c.held[p] = held
	}
	c.emit(wire.Results{Job: c.b.Job, Chunk: c.b.Chunk, Epoch: c.b.Epoch, Rows: rows, Held: c.totalHeld()})
}

// totalHeld joins what the parts hold. The mutex is held.
func (c *resultCollector) totalHeld() (all wire.Held) {
	for _, h := range c.held {
		all.Rows += h.Rows
		if all.Until.IsZero() || h.Rows > 0 && h.Until.Before(all.Until) {
			all.Until = h.Until
		}
	}
	return all
}

// batchSplitter splits the rows of a batch into parts by owner.
type batchSplitter struct {
	f        *Fleet
	b        *wire.Batch
	r        *membership
	now      time.Time
	parts    map[string]*part // by identity: the last, while it has room
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

func (s *batchSplitter) assign(row *wire.Row) {
	s.findOwner(row)
	switch {
	case s.suppressed || s.f.cfg.SuppressedAddress(row.Address):
		s.returned = append(s.returned, wire.Result{Row: row.Number, Attempt: row.Attempt, Verdict: suppressedVerdict(row, s.now)})
	case !s.owner.ready():
		s.returned = append(s.returned, wire.Result{Row: row.Number, Attempt: row.Attempt, Outcome: wire.Returned, Due: s.due()})
	default:
		s.addToPart(row)
	}
}

// due is when a row whose owner is not ready may be sent again.
func (s *batchSplitter) due() time.Time {
	if s.owner.readyAt.After(s.now) {
		return s.owner.readyAt
	}
	return s.now.Add(absentWait)
}

func (s *batchSplitter) findOwner(row *wire.Row) {
	domain := row.Address.Domain()
	key, narrow := s.key, s.narrow
	if row.Route != s.route || domain != s.domain || !narrow {
		key, narrow = keyOf(row.Route, row.Address)
	}
	if row.Route != s.route || domain != s.domain {
		s.suppressed = s.f.cfg.Suppressed(domain, row.Route.Hosts)
	}
	if s.route == nil || key != s.key {
		s.owner = s.r.ownerOf(key, narrow, row.Route.Provider, s.b.Egress, s.now)
		s.part = s.parts[s.owner.identity]
	}
	s.route, s.domain, s.key, s.narrow = row.Route, domain, key, narrow
}

func (s *batchSplitter) addToPart(row *wire.Row) {
	p := s.part
	if p == nil || len(p.batch.Rows) >= p.maxRows {
		p = &part{maxRows: maxPartRows(row.Route.Provider), batch: *s.b, owner: s.owner, pinned: s.owner.identity == s.b.Egress}
		// Each job has its own window at each identity: no job waits for another's credit.
		p.batch.Egress, p.batch.Class = s.owner.identity, s.b.Class+"@"+s.owner.identity+"#"+s.b.Job
		p.batch.Rows = make([]wire.Row, 0, min(p.maxRows, 1+len(s.b.Rows)/max(1, s.r.set.Len())))
		s.parts[s.owner.identity], s.all = p, append(s.all, p)
		s.part = p
	}
	if n := len(p.keys); s.narrow && (n == 0 || p.keys[n-1].key != s.key) {
		p.keys = append(p.keys, narrowKey{s.key, row.Route.Provider})
		s.f.usage.addToBatch(&p.batch, row.Route, s.now)
	}
	p.batch.Rows = append(p.batch.Rows, *row)
	if s.b.Egress != "" && !p.pinned {
		p.batch.Rows[len(p.batch.Rows)-1].Attempt = 0 // the source of earlier attempts is gone: this is a first contact
	}
}

// suppressedVerdict is the verdict of a row that the suppression list excludes.
func suppressedVerdict(row *wire.Row, now time.Time) engine.Verdict {
	v := engine.VerdictFor(engine.ReasonSMTPNotChecked, RuleSuppressed, row.Flags, now)
	v.ProviderID, v.ProviderName, v.MX = row.Route.Provider.ID, row.Route.Provider.Name, row.Route.MX
	return v
}

// Awaited is until when rows may wait for absent sources; a time in the past if none is absent.
func (f *Fleet) Awaited() time.Time { return f.membership.Load().waitUntil() }

// Sources is how many identities take work.
func (f *Fleet) Sources() int { return f.membership.Load().set.Len() }
