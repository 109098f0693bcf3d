package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"probity/engine"
)

// DefaultHold is how long a batch is held whose sender names no time.
const DefaultHold = 60 * time.Second

// call is one batch under way. The client's mutex guards all but what Verify alone uses.
type call struct {
	number uint64
	batch  *Batch
	until  time.Time     // end of the hold
	wake   chan struct{} // inbox or failed is news; holds one

	table    [8]byte         // that the routes of the batch are of
	recalled *link           // on which the node was told that our table is another one now: what is unanswered comes home
	posted   bool            // the batch was sent on some stream
	seq      uint64          // of the last results that came
	ended    bool            // the last results came
	inbox    []*ResultsFrame // not yet emitted; bounded by the rows of the batch
	failed   error
	home     map[uint32]bool // of each row of the batch: whether it is in or before the inbox
	came     int             // how many are

	waits map[uint32]int // row number -> index, of the rows not emitted; Verify's own
}

// take accepts the next results. Each brings rows that the batch still waits for, is the last, or tells how many rows the node holds, of
// which the newest is kept: no node makes us keep more than its batch is worth.
func (k *call) take(f *ResultsFrame) error {
	rows := f.GetRow()
	if size := proto.Size(f); size > maxResults+len(rows)*maxResult {
		return malformed("results of %d rows have %d bytes", len(rows), size)
	}
	if k.ended {
		return malformed("results after the last")
	}
	if n := len(k.inbox); n > 0 && k.inbox[n-1].tellsOnly() && f.tellsOnly() {
		k.inbox[n-1] = f // of what a node only tells of its rows, the newest is enough
		return nil
	}
	for _, row := range rows {
		if home, ok := k.home[row]; !ok || home {
			return malformed("results of row %d, which the batch does not wait for", row)
		}
		k.home[row] = true
		k.came++
	}
	k.inbox = append(k.inbox, f)
	k.ended = f.GetDone()
	k.nudge()
	return nil
}

// tellsOnly reports a message without rows that is not the last.
func (f *ResultsFrame) tellsOnly() bool { return len(f.GetRow()) == 0 && !f.GetDone() }

// over reports that nothing more is to come.
func (k *call) over() bool { return k.ended || k.came == len(k.batch.Rows) }

func (k *call) fail(err error) {
	k.failed = err
	k.nudge()
}

func (k *call) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Verify sends the batch when the node's credit allows it and emits what comes home. Its error is of the node: ErrGone when it
// is given up, or the node's own words; the rows that were not emitted then have no result.
func (c *Client) Verify(ctx context.Context, b *Batch, hold time.Duration, emit func(Results)) error {
	switch {
	case len(b.Rows) > MaxRows:
		panic(fmt.Sprintf("BUG: a batch of %d rows", len(b.Rows)))
	case len(b.Rows) == 0:
		emit(laterAll(b, nil))
		return nil
	case hold <= 0:
		hold = DefaultHold
	}
	until := time.Now().Add(hold)
	err := c.admit(ctx, b, until)
	if errors.Is(err, errNoCredit) {
		emit(laterAll(b, allRows(b)))
		return nil
	}
	if err != nil {
		return err
	}
	defer c.release(b)
	k := c.open(b, until)
	if k == nil {
		return c.unusable()
	}
	defer c.closeCall(k)
	err = c.follow(ctx, k, emit)
	if errors.Is(err, errRecalled) {
		emit(laterAll(b, k.waits))
		return nil
	}
	if err != nil {
		return &Lost{Err: err, Rows: k.waits}
	}
	return nil
}

// Lost is a batch that a node failed to end. Rows are those without a result: their number and place in the batch.
type Lost struct {
	Err  error
	Rows map[uint32]int
}

func (e *Lost) Error() string { return e.Err.Error() }
func (e *Lost) Unwrap() error { return e.Err }

func allRows(b *Batch) map[uint32]int {
	rows := make(map[uint32]int, len(b.Rows))
	for i := range b.Rows {
		rows[b.Rows[i].Number] = i
	}
	return rows
}

// laterAll is the end of a batch whose waiting rows come home unasked.
func laterAll(b *Batch, waits map[uint32]int) Results {
	r := Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Done: true}
	for i := range b.Rows {
		if row := &b.Rows[i]; waitsFor(waits, row.Number) {
			r.Rows = append(r.Rows, Result{Row: row.Number, Outcome: Later, Attempt: row.Attempt, Egress: b.Egress})
		}
	}
	return r
}

func waitsFor(waits map[uint32]int, row uint32) bool { _, ok := waits[row]; return ok }

// open registers the batch and sends it; nil where the node has gone meanwhile.
func (c *Client) open(b *Batch, until time.Time) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.state.Usable || c.state.Draining {
		return nil
	}
	c.last++
	k := &call{number: c.last, batch: b, table: b.table(), until: until, wake: make(chan struct{}, 1), home: make(map[uint32]bool, len(b.Rows)), waits: allRows(b)}
	for i := range b.Rows {
		k.home[b.Rows[i].Number] = false
	}
	c.calls[k.number] = k
	if c.stream != nil && c.stream.takesWork {
		c.postOrRecall(k)
	}
	return k
}

// post sends the rows of a call that are not home; numbering of its results begins again. The caller holds mu.
func (c *Client) post(k *call) {
	k.posted, k.seq = true, 0
	left := max(time.Until(k.until), time.Second)
	f := k.batch.toFrame(k.number, left, func(r *Row) bool { return !k.home[r.Number] })
	f.Table = c.toldTable(k.table)
	c.stream.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Batch{Batch: f}})
}

// closeCall forgets a call. What the node still sends of it is acknowledged and dropped.
func (c *Client) closeCall(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k.number)
	c.turn()
}

// cancel asks the node to send home what it has not finished.
func (c *Client) cancel(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.stream.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Cancel{Cancel: &CancelFrame{Batch: k.number}}})
	}
}

// follow emits until the last row is home, or the time that a node may take is over.
func (c *Client) follow(ctx context.Context, k *call, emit func(Results)) error {
	timer := time.NewTimer(time.Until(k.until) + Grace)
	defer timer.Stop()
	cancelled, recalled := ctx.Done(), false
	for {
		select {
		case <-k.wake:
		case <-cancelled:
			cancelled = nil
			c.cancel(k)
			timer.Reset(Grace)
		case <-timer.C:
			c.cancel(k)
			c.cfg.Log.Warn("a batch did not come home in time", "rows", len(k.waits))
			emit(laterAll(k.batch, k.waits))
			return nil
		}
		frames, failed, comesHome := c.inbox(k)
		for _, f := range frames {
			if done, err := k.emit(f, emit); done || err != nil {
				return c.blamed(err)
			}
		}
		switch {
		case failed != nil:
			return failed
		case comesHome && !recalled:
			recalled = true
			timer.Reset(Grace)
		}
	}
}

func (c *Client) blamed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", c.cfg.Node, err)
}

func (c *Client) inbox(k *call) (frames []*ResultsFrame, failed error, comesHome bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames, k.inbox = k.inbox, nil
	return frames, k.failed, k.recalled != nil
}

// emit passes on the rows of a message that the caller has not had yet. It reports the end of the batch.
func (k *call) emit(f *ResultsFrame, emit func(Results)) (done bool, err error) {
	rows, err := f.rows(make([]Result, 0, len(f.GetRow())))
	if err != nil {
		return false, err
	}
	kept := rows[:0]
	for _, r := range rows {
		i, ok := k.waits[r.Row]
		if !ok {
			continue
		}
		delete(k.waits, r.Row)
		if r.Outcome == Settled {
			r.Verdict.MX = k.batch.Rows[i].Route.MX
		}
		kept = append(kept, r)
	}
	done = len(k.waits) == 0
	if len(kept) > 0 || done || len(rows) == 0 {
		emit(Results{Job: k.batch.Job, Chunk: k.batch.Chunk, Epoch: k.batch.Epoch, Rows: kept, Held: f.heldOf(), Done: done})
	}
	switch {
	case done || !f.GetDone():
		return done, nil
	case f.GetFailed() != "":
		return true, errors.New(f.GetFailed())
	}
	return true, malformed("the last results came, and %d rows have none", len(k.waits))
}

// Single asks the node at once, or when it works by the table that the route is of. At the deadline of ctx the answer is
// UNKNOWN/timeout, whatever is late. A route of a table that is no longer ours is ErrOtherTable.
func (c *Client) Single(ctx context.Context, a Ask) (Answer, error) {
	table, err := c.awaitTable(ctx, a.Route)
	if err != nil {
		return c.unanswered(ctx, &a, err)
	}
	c.mu.Lock()
	node, usable := c.single, c.state.Usable && !c.state.Draining
	f := a.toFrame(budget(ctx))
	f.Coordinator, f.Table = c.idFrame(), c.toldTable(table)
	c.mu.Unlock()
	if node == nil || !usable {
		return Answer{}, c.unusable()
	}
	answer, err := node.Single(ctx, f)
	if err != nil {
		return c.unanswered(ctx, &a, err)
	}
	v, err := answer.GetVerdict().verdict()
	if err != nil {
		return Answer{}, c.blamed(err)
	}
	return Answer{Verdict: v, Node: answer.GetNode()}, nil
}

// budget is the time that the node may take: what ctx leaves, less what the way back may cost.
func budget(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	return max(left-min(left/10, 50*time.Millisecond), time.Millisecond)
}

func (c *Client) unanswered(ctx context.Context, a *Ask, err error) (Answer, error) {
	deadline, ok := ctx.Deadline()
	late := ok && !time.Now().Before(deadline)
	switch {
	case late:
		v := engine.Sure(engine.ReasonTimeout, "wire/timeout", a.Flags, time.Now())
		v.ProviderID, v.ProviderName, v.MX = a.Route.Provider.ID, a.Route.Provider.Name, a.Route.MX
		return Answer{Verdict: v, Node: c.cfg.Node}, nil
	case ctx.Err() != nil:
		return Answer{}, ctx.Err()
	case status.Code(err) == codes.Aborted:
		return Answer{}, fmt.Errorf("node %s: %s: %w", c.cfg.Node, status.Convert(err).Message(), ErrOtherTable)
	case errors.Is(err, ErrOtherTable):
		return Answer{}, err
	case status.Code(err) == codes.Unavailable:
		return Answer{}, fmt.Errorf("node %s: %s: %w", c.cfg.Node, status.Convert(err).Message(), ErrGone)
	}
	return Answer{}, c.blamed(errors.New(status.Convert(err).Message()))
}

func (c *Client) unusable() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Draining {
		return c.drained()
	}
	return c.gone()
}

func (c *Client) drained() error {
	return fmt.Errorf("node %s: it is stopping: %w", c.cfg.Node, ErrGone)
}
