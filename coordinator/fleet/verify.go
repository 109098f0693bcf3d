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

// part is the rows of a batch that one identity is asked about.
type part struct {
	batch  wire.Batch
	owner  owner
	pinned bool
	keys   []narrowKey // among those of the rows
	most   int         // rows
}

// narrowKey is a key that one source at a time asks for, and its provider.
type narrowKey struct {
	key shard.Key
	of  *engine.Provider
}

// leastPiece is the fewest rows that are worth a batch of their own.
const leastPiece = 64

// pieceOf is how many rows are sent together: no more than a provider that many sources ask takes from one of them in half a
// minute, so that the rows of two jobs take turns. Rows of other routes are many routes' or wait for their own alone.
func pieceOf(p *engine.Provider) int {
	if p == nil || !p.Shared() || p.Limits.RecipientsPerMinute == 0 {
		return wire.MaxRows
	}
	return min(wire.MaxRows, max(leastPiece, p.Limits.RecipientsPerMinute/2))
}

// moved reports that a narrow key of the part has another owner now.
func (p *part) moved(r *roster) bool {
	for _, k := range p.keys {
		if id, ok := ownerIn(r.set, k.key, k.of); ok && id.Name != p.owner.identity {
			return true
		}
	}
	return false
}

// Verify implements wire.Prober. Rows whose owner cannot be asked now come home at once.
func (f *Fleet) Verify(ctx context.Context, b *wire.Batch, hold time.Duration, emit func(wire.Results)) error {
	s := spreading{f: f, b: b, r: f.roster.Load(), now: time.Now(), parts: map[string]*part{}}
	for i := range b.Rows {
		s.put(&b.Rows[i])
	}
	c := &collecting{b: b, emit: emit, held: map[*part]wire.Held{}}
	c.takePart(nil, wire.Held{}, s.home)
	var parts sync.WaitGroup
	for _, p := range s.all {
		parts.Go(func() { f.ask(ctx, p, hold, c) })
	}
	parts.Wait()
	emit(wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Done: true})
	return nil
}

// ask has one node answer for a part.
func (f *Fleet) ask(ctx context.Context, p *part, hold time.Duration, c *collecting) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !f.enter(p, cancel) {
		c.takePart(p, wire.Held{}, p.unanswered(wire.ErrGone, time.Now()))
		return
	}
	defer f.leave(p)
	worked := &p.owner.node.worked
	worked.Store(time.Now().UnixNano())
	err := p.owner.node.client.Verify(ctx, &p.batch, hold, func(r wire.Results) {
		worked.Store(time.Now().UnixNano())
		c.takePart(p, r.Held, f.elsewhere(p, r.Rows))
	})
	if err == nil {
		return
	}
	if !errors.Is(err, wire.ErrGone) {
		f.cfg.Log.Warn("a node did not end its rows; they are asked again", "job", c.b.Job, "rows", len(p.batch.Rows), "error", err)
	}
	home := p.unanswered(err, time.Now().Add(awayWait))
	f.writeOff(p, home)
	c.takePart(p, wire.Held{}, home)
}

// enter registers a part that is under way, so that it can be called home, and notes that its node is given something to ask. False for
// one that has moved already: nothing was sent.
func (f *Fleet) enter(p *part, cancel context.CancelFunc) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.moved(f.roster.Load()) {
		return false
	}
	p.owner.node.given.Store(true)
	f.parts[p] = cancel
	return true
}

func (f *Fleet) leave(p *part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.parts, p)
}

// unanswered is the rows that a node which failed has not answered: Later, at a time when somebody may be there.
func (p *part) unanswered(err error, due time.Time) []wire.Result {
	var lost *wire.Lost
	some := errors.As(err, &lost)
	var home []wire.Result
	for i := range p.batch.Rows {
		row := &p.batch.Rows[i]
		if some {
			if _, waits := lost.Rows[row.Number]; !waits {
				continue
			}
		}
		home = append(home, wire.Result{Row: row.Number, Attempt: row.Attempt, Outcome: wire.Later, Due: due})
	}
	return home
}

// collecting joins the results of parts.
type collecting struct {
	b *wire.Batch

	mu   sync.Mutex // guards all below
	emit func(wire.Results)
	held map[*part]wire.Held // what each part said last
}

// takePart passes on results of a part, and what all parts hold. Rows that come home unasked are as free as they were before.
func (c *collecting) takePart(p *part, held wire.Held, rows []wire.Result) {
	if p == nil && len(rows) == 0 {
		return
	}
	for i := range rows {
		if rows[i].Outcome == wire.Later {
			rows[i].Egress = c.b.Egress
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p != nil {
		c.held[p] = held
	}
	c.emit(wire.Results{Job: c.b.Job, Chunk: c.b.Chunk, Epoch: c.b.Epoch, Rows: rows, Held: c.heldByAll()})
}

// heldByAll joins what the parts hold. The mutex is held.
func (c *collecting) heldByAll() (all wire.Held) {
	for _, h := range c.held {
		all.Rows += h.Rows
		if all.Until.IsZero() || h.Rows > 0 && h.Until.Before(all.Until) {
			all.Until = h.Until
		}
	}
	return all
}

// spreading gives the rows of a batch to their owners.
type spreading struct {
	f     *Fleet
	b     *wire.Batch
	r     *roster
	now   time.Time
	parts map[string]*part // by identity: the last, while it has room
	all   []*part
	home  []wire.Result

	// What need not be found out again while rows of one domain follow each other.
	route      *engine.Route
	domain     string
	suppressed bool
	key        shard.Key
	narrow     bool
	by         owner
	part       *part // of by, if it has one
}

func (s *spreading) put(row *wire.Row) {
	s.look(row)
	switch {
	case s.suppressed || s.f.cfg.SuppressedAddress(row.Address):
		s.home = append(s.home, wire.Result{Row: row.Number, Attempt: row.Attempt, Verdict: unprobed(row, s.now)})
	case !s.by.ready():
		s.home = append(s.home, wire.Result{Row: row.Number, Attempt: row.Attempt, Outcome: wire.Later, Due: s.due()})
	default:
		s.add(row)
	}
}

// due is when a row whose owner is not ready may go out again.
func (s *spreading) due() time.Time {
	if s.by.from.After(s.now) {
		return s.by.from
	}
	return s.now.Add(awayWait)
}

// look finds the row's owner.
func (s *spreading) look(row *wire.Row) {
	domain := row.Address.Domain()
	key, narrow := s.key, s.narrow
	if row.Route != s.route || domain != s.domain || !narrow {
		key, narrow = keyOf(row.Route, row.Address)
	}
	if row.Route != s.route || domain != s.domain {
		s.suppressed = s.f.cfg.Suppressed(domain, row.Route.Hosts)
	}
	if s.route == nil || key != s.key {
		s.by = s.r.owner(key, narrow, row.Route.Provider, s.b.Egress, s.now)
		s.part = s.parts[s.by.identity]
	}
	s.route, s.domain, s.key, s.narrow = row.Route, domain, key, narrow
}

func (s *spreading) add(row *wire.Row) {
	p := s.part
	if p == nil || len(p.batch.Rows) >= p.most {
		p = &part{most: pieceOf(row.Route.Provider), batch: *s.b, owner: s.by, pinned: s.by.identity == s.b.Egress}
		// Each identity has a window of its own, and each job in it: no job waits for another's credit.
		p.batch.Egress, p.batch.Class = s.by.identity, s.b.Class+"@"+s.by.identity+"#"+s.b.Job
		p.batch.Rows = make([]wire.Row, 0, min(p.most, 1+len(s.b.Rows)/max(1, s.r.set.Len())))
		s.parts[s.by.identity], s.all = p, append(s.all, p)
		s.part = p
	}
	if n := len(p.keys); s.narrow && (n == 0 || p.keys[n-1].key != s.key) {
		p.keys = append(p.keys, narrowKey{s.key, row.Route.Provider})
		s.f.spent.tell(&p.batch, row.Route, s.now)
	}
	p.batch.Rows = append(p.batch.Rows, *row)
	if s.b.Egress != "" && !p.pinned {
		p.batch.Rows[len(p.batch.Rows)-1].Attempt = 0 // who asked before is gone: this is a first contact
	}
}

// unprobed is the verdict of a row that no node may ask about.
func unprobed(row *wire.Row, now time.Time) engine.Verdict {
	v := engine.Sure(engine.ReasonSMTPNotChecked, RuleSuppressed, row.Flags, now)
	v.ProviderID, v.ProviderName, v.MX = row.Route.Provider.ID, row.Route.Provider.Name, row.Route.MX
	return v
}

// Awaited is until when rows may wait for sources that are away; the past, where all are there.
func (f *Fleet) Awaited() time.Time { return f.roster.Load().awaited() }

// Sources is how many identities take work.
func (f *Fleet) Sources() int { return f.roster.Load().set.Len() }
