package history

import (
	"errors"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/engine"
	"probity/store/diskroom"
)

// maxPending bounds the bytes of rows that wait to be written. The rows of a call that comes at this limit are dropped.
const maxPending = 4 << 20

// pending is what waits to be written.
type pending struct {
	mu       sync.Mutex
	accounts map[string]*pendingAccount
	bytes    int
	row      []byte   // memory of the row that is being added
	free     [][]byte // memory of blocks that were written, of maxFree at most
}

// maxFree bounds the memory of blocks that is kept, which with it makes no garbage for each call.
const maxFree = 2 * maxPending / blockBytes

// pendingAccount is the part of an account.
type pendingAccount struct {
	requests      []block
	verifications []block
	days          map[uint64]*Day // what is to be added to each
}

// Add adds a request and the verifications that it brought. A late verification comes without its request: r is nil. It
// never waits for the disk.
func (h *History) Add(account string, r *Request, verified ...Verification) {
	if h == nil {
		return
	}
	p := &h.pending
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bytes >= maxPending {
		h.dropped.Add(float64(1 + len(verified)))
		return
	}
	a := p.accounts[account]
	if a == nil {
		a = &pendingAccount{days: map[uint64]*Day{}}
		p.accounts[account] = a
	}
	before := p.bytes
	if r != nil {
		p.row = appendRequest(p.row[:0], r)
		a.requests = p.appendRow(a.requests)
		p.bytes += len(p.row)
		a.day(r.At).Requests++
	}
	for i := range verified {
		v := &verified[i]
		d := a.day(v.At)
		p.row = appendVerification(p.row[:0], v)
		a.verifications = p.appendRow(a.verifications)
		p.bytes += len(p.row)
		if !v.Test {
			d.Verified[v.Verdict.Status]++
		}
	}
	if before < maxPending/2 && p.bytes >= maxPending/2 {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// appendRow adds the row to the last block, or to a new one.
func (p *pending) appendRow(blocks []block) []block {
	if len(blocks) == 0 || blocks[len(blocks)-1].full() {
		var memory []byte
		if n := len(p.free); n > 0 {
			memory, p.free = p.free[n-1], p.free[:n-1]
		}
		blocks = append(blocks, newBlock(memory))
	}
	blocks[len(blocks)-1].add(p.row)
	return blocks
}

// reuse keeps the memory of blocks that were written.
func (p *pending) reuse(blocks []block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range blocks {
		if len(p.free) < maxFree {
			p.free = append(p.free, blocks[i].value)
		}
	}
}

// day is the day of a time, to count in.
func (a *pendingAccount) day(at time.Time) *Day {
	n := dayNumber(at)
	if a.days[n] == nil {
		a.days[n] = &Day{}
	}
	return a.days[n]
}

// take returns what waits, which is then none.
func (p *pending) take() map[string]*pendingAccount {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.accounts) == 0 {
		return nil // not the map itself, to which others add
	}
	taken := p.accounts
	p.accounts, p.bytes = map[string]*pendingAccount{}, 0
	return taken
}

// flush writes what waits. On a full disk it stays in memory; if the database fails, it is lost.
func (h *History) flush() {
	if diskroom.Full(h.cfg.FS) != nil { // before the lock, which a write that waits for room holds
		return
	}
	h.writeMu.Lock()
	defer h.writeMu.Unlock()
	taken := h.pending.take()
	if len(taken) == 0 {
		return
	}
	if err := h.write(taken); err != nil {
		lost := 0
		for _, a := range taken {
			lost += rowsOf(a.requests) + rowsOf(a.verifications)
		}
		h.dropped.Add(float64(lost))
		h.cfg.Log.Warn("rows of the history are lost", "rows", lost, "error", err)
	}
}

// maxFlushWait bounds how long a read waits for what was added before it: a write can wait for room on the disk.
const maxFlushWait = time.Second

// flushForRead is flush, which it leaves to itself after maxFlushWait.
func (h *History) flushForRead() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.flush()
	}()
	late := time.NewTimer(maxFlushWait)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

func rowsOf(blocks []block) (n int) {
	for i := range blocks {
		n += blocks[i].count
	}
	return n
}

func (h *History) write(taken map[string]*pendingAccount) error {
	h.dbMu.RLock()
	defer h.dbMu.RUnlock()
	defer panicAsLost()
	for account, a := range taken {
		err := errors.Join(h.writeRows(requests, account, a.requests),
			h.writeRows(verifications, account, a.verifications),
			h.writeDays(account, a.days))
		if err != nil {
			return err
		}
		h.pending.reuse(a.requests)
		h.pending.reuse(a.verifications)
	}
	return nil
}

// writeRows writes blocks after those that there are, and deletes the oldest rows of an account that has too many.
func (h *History) writeRows(k kind, account string, blocks []block) error {
	if len(blocks) == 0 {
		return nil
	}
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: k.prefix(account), UpperBound: k.end(account)})
	if err != nil {
		return err
	}
	defer it.Close()
	next, oldest := uint64(1), uint64(1)
	if it.Last() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		_, n := splitKey(it.Key())
		next = n + uint64(max(1, len(splitBlock(value))))
		it.First()
		_, oldest = splitKey(it.Key())
	}
	if err := it.Error(); err != nil {
		return err
	}
	for i := range blocks {
		// One by one: the database reuses the memory of small batches only.
		if err := h.db.Set(k.key(account, next), blocks[i].seal(), pebble.NoSync); err != nil {
			return err
		}
		next += uint64(blocks[i].count)
	}
	if kept := next - oldest; kept <= h.cfg.Rows+h.cfg.Rows/16 {
		return nil
	}
	return h.db.DeleteRange(k.prefix(account), k.key(account, next-h.cfg.Rows), pebble.NoSync)
}

// verdictCounts are how many verifications had each status.
type verdictCounts [engine.Invalid + 1]int64
