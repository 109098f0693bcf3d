package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

	posted bool            // the batch was sent on some stream
	seq    uint64          // of the last results that came
	ended  bool            // the last results came
	inbox  []*ResultsFrame // not yet emitted; bounded by the rows of the batch
	failed error
	home   map[uint32]bool // rows in or before the inbox

	waits map[uint32]int // row number -> index, of the rows not emitted; Verify's own
}

func (k *call) take(f *ResultsFrame) {
	k.inbox = append(k.inbox, f)
	k.ended = f.GetDone()
	for _, row := range f.GetRow() {
		k.home[row] = true
	}
	k.nudge()
}

// over reports that nothing more is to come.
func (k *call) over() bool { return k.ended || len(k.home) == len(k.batch.Rows) }

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
	if err := c.follow(ctx, k, emit); err != nil {
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
	k := &call{number: c.last, batch: b, until: until, wake: make(chan struct{}, 1), home: map[uint32]bool{}, waits: allRows(b)}
	c.calls[k.number] = k
	if c.stream != nil {
		c.post(k)
	}
	return k
}

// post sends the rows of a call that are not home; numbering of its results begins again. The caller holds mu.
func (c *Client) post(k *call) {
	k.posted, k.seq = true, 0
	left := max(time.Until(k.until), time.Second)
	f := k.batch.toFrame(k.number, left, func(r *Row) bool { return !k.home[r.Number] })
	c.stream.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Batch{Batch: f}})
}

// closeCall forgets a call. What the node still sends of it is acknowledged and dropped.
func (c *Client) closeCall(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k.number)
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
	cancelled := ctx.Done()
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
		frames, failed := c.inbox(k)
		for _, f := range frames {
			if done, err := k.emit(f, emit); done || err != nil {
				return c.blamed(err)
			}
		}
		if failed != nil {
			return failed
		}
	}
}

func (c *Client) blamed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", c.cfg.Node, err)
}

func (c *Client) inbox(k *call) ([]*ResultsFrame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames := k.inbox
	k.inbox = nil
	return frames, k.failed
}

// emit passes on the rows of a message that nobody has had yet. It reports the end of the batch.
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
	if len(kept) > 0 || done {
		emit(Results{Job: k.batch.Job, Chunk: k.batch.Chunk, Epoch: k.batch.Epoch, Rows: kept, Done: done})
	}
	switch {
	case done || !f.GetDone():
		return done, nil
	case f.GetFailed() != "":
		return true, errors.New(f.GetFailed())
	}
	return true, malformed("the last results came, and %d rows have none", len(k.waits))
}

// Single asks the node at once. At the deadline of ctx the answer is UNKNOWN/timeout, whoever is late.
func (c *Client) Single(ctx context.Context, a Ask) (Answer, error) {
	c.mu.Lock()
	node, usable := c.single, c.state.Usable && !c.state.Draining
	id := c.idFrame()
	c.mu.Unlock()
	if node == nil || !usable {
		return Answer{}, c.unusable()
	}
	f := a.toFrame(budget(ctx))
	f.Coordinator = id
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
