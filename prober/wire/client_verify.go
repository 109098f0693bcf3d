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

// DefaultHold is how long a batch is held if its sender sets no time.
const DefaultHold = 60 * time.Second

// pendingBatch is one batch under way. The client's mutex guards all but what Verify alone uses.
type pendingBatch struct {
	number uint64
	batch  *Batch
	until  time.Time     // end of the hold
	wake   chan struct{} // inbox or failed has changed; holds one

	table         [8]byte         // that the routes of the batch are of
	recalled      *clientStream   // on which the node was told that our table is another one now: unanswered rows are returned
	posted        bool            // the batch was sent on some stream
	seq           uint64          // of the last results that came
	done          bool            // the last results came
	inbox         []*ResultsFrame // not yet emitted; bounded by the rows of the batch
	failed        error
	received      map[uint32]bool // of each row of the batch: whether it is in or before the inbox
	receivedCount int             // how many are

	waiting map[uint32]int // row number -> index, of the rows not emitted; Verify's own
}

// accept takes the next results. Each message brings rows that the batch still waits for, is the last, or says how many rows
// the node holds; of those the newest is kept. So no node makes us keep more than its batch needs.
func (pb *pendingBatch) accept(f *ResultsFrame) error {
	rows := f.GetRow()
	if size := proto.Size(f); size > maxResults+len(rows)*maxResult {
		return malformed("results of %d rows have %d bytes", len(rows), size)
	}
	if pb.done {
		return malformed("results after the last")
	}
	if n := len(pb.inbox); n > 0 && pb.inbox[n-1].heldOnly() && f.heldOnly() {
		pb.inbox[n-1] = f // the newest report without rows is enough
		return nil
	}
	for _, row := range rows {
		if returned, ok := pb.received[row]; !ok || returned {
			return malformed("results of row %d, which the batch does not wait for", row)
		}
		pb.received[row] = true
		pb.receivedCount++
	}
	pb.inbox = append(pb.inbox, f)
	pb.done = f.GetDone()
	pb.signal()
	return nil
}

// heldOnly reports a message without rows that is not the last.
func (f *ResultsFrame) heldOnly() bool { return len(f.GetRow()) == 0 && !f.GetDone() }

// complete reports that nothing more is to come.
func (pb *pendingBatch) complete() bool { return pb.done || pb.receivedCount == len(pb.batch.Rows) }

func (pb *pendingBatch) fail(err error) {
	pb.failed = err
	pb.signal()
}

func (pb *pendingBatch) signal() {
	select {
	case pb.wake <- struct{}{}:
	default:
	}
}

// Verify sends the batch when the node's credit allows it and emits what is returned. Its error is the node's: ErrGone if the
// node is given up, else what the node said. The rows that were not emitted then have no result.
func (c *Client) Verify(ctx context.Context, b *Batch, hold time.Duration, emit func(Results)) error {
	switch {
	case len(b.Rows) > MaxRows:
		panic(fmt.Sprintf("BUG: a batch of %d rows", len(b.Rows)))
	case len(b.Rows) == 0:
		emit(returnedResults(b, nil))
		return nil
	case hold <= 0:
		hold = DefaultHold
	}
	until := time.Now().Add(hold)
	err := c.admit(ctx, b, until)
	if errors.Is(err, errNoCredit) {
		emit(returnedResults(b, allRows(b)))
		return nil
	}
	if err != nil {
		return err
	}
	defer c.release(b)
	pb := c.open(b, until)
	if pb == nil {
		return c.unusableError()
	}
	defer c.closeBatch(pb)
	err = c.follow(ctx, pb, emit)
	if errors.Is(err, errRecalled) {
		emit(returnedResults(b, pb.waiting))
		return nil
	}
	if err != nil {
		return &Lost{Err: err, Rows: pb.waiting}
	}
	return nil
}

// Lost is a batch that a node failed to end. Rows are those without a result: their number and index in the batch.
type Lost struct {
	Err  error
	Rows map[uint32]int
}

func (l *Lost) Error() string { return l.Err.Error() }
func (l *Lost) Unwrap() error { return l.Err }

func allRows(b *Batch) map[uint32]int {
	rows := make(map[uint32]int, len(b.Rows))
	for i := range b.Rows {
		rows[b.Rows[i].Number] = i
	}
	return rows
}

// returnedResults is the end of a batch whose waiting rows are returned unasked.
func returnedResults(b *Batch, waiting map[uint32]int) Results {
	r := Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Done: true}
	for i := range b.Rows {
		if row := &b.Rows[i]; isWaiting(waiting, row.Number) {
			r.Rows = append(r.Rows, Result{Row: row.Number, Outcome: Returned, Attempt: row.Attempt, Egress: b.Egress})
		}
	}
	return r
}

func isWaiting(waiting map[uint32]int, row uint32) bool { _, ok := waiting[row]; return ok }

// open registers the batch and sends it; nil where the node has gone meanwhile.
func (c *Client) open(b *Batch, until time.Time) *pendingBatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.state.Usable || c.state.Draining {
		return nil
	}
	c.last++
	pb := &pendingBatch{number: c.last, batch: b, table: b.table(), until: until, wake: make(chan struct{}, 1), received: make(map[uint32]bool, len(b.Rows)), waiting: allRows(b)}
	for i := range b.Rows {
		pb.received[b.Rows[i].Number] = false
	}
	c.batches[pb.number] = pb
	if c.stream != nil && c.stream.acceptsWork {
		c.postOrReturn(pb)
	}
	return pb
}

// post sends the rows of a batch that have no result; numbering of its results begins again. The caller holds mu.
func (c *Client) post(pb *pendingBatch) {
	pb.posted, pb.seq = true, 0
	left := max(time.Until(pb.until), time.Second)
	f := pb.batch.toFrame(pb.number, left, func(r *Row) bool { return !pb.received[r.Number] })
	f.Table = c.tableForPeer(pb.table)
	c.stream.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Batch{Batch: f}})
}

// closeBatch forgets a batch. Results that the node still sends are acknowledged and dropped.
func (c *Client) closeBatch(pb *pendingBatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.batches, pb.number)
	c.advanceTable()
}

// cancel asks the node to return what it has not finished.
func (c *Client) cancel(pb *pendingBatch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.stream.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Cancel{Cancel: &CancelFrame{Batch: pb.number}}})
	}
}

// follow emits until the last row has its result, or the time that a node may take is over.
func (c *Client) follow(ctx context.Context, pb *pendingBatch, emit func(Results)) error {
	timer := time.NewTimer(time.Until(pb.until) + Grace)
	defer timer.Stop()
	cancelled, recalled := ctx.Done(), false
	for {
		select {
		case <-pb.wake:
		case <-cancelled:
			cancelled = nil
			c.cancel(pb)
			timer.Reset(Grace)
		case <-timer.C:
			c.cancel(pb)
			c.cfg.Log.Warn("batch not returned in time", "rows", len(pb.waiting))
			emit(returnedResults(pb.batch, pb.waiting))
			return nil
		}
		frames, failed, returning := c.inbox(pb)
		for _, f := range frames {
			if done, err := pb.emit(f, emit); done || err != nil {
				return c.nodeError(err)
			}
		}
		switch {
		case failed != nil:
			return failed
		case returning && !recalled:
			recalled = true
			timer.Reset(Grace)
		}
	}
}

func (c *Client) nodeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", c.cfg.Node, err)
}

func (c *Client) inbox(pb *pendingBatch) (frames []*ResultsFrame, failed error, returning bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frames, pb.inbox = pb.inbox, nil
	return frames, pb.failed, pb.recalled != nil
}

// emit passes on the rows of a message that the caller has not had yet. It reports the end of the batch.
func (pb *pendingBatch) emit(f *ResultsFrame, emit func(Results)) (done bool, err error) {
	rows, err := f.rows(make([]Result, 0, len(f.GetRow())))
	if err != nil {
		return false, err
	}
	kept := rows[:0]
	for _, r := range rows {
		i, ok := pb.waiting[r.Row]
		if !ok {
			continue
		}
		delete(pb.waiting, r.Row)
		if r.Outcome == Settled {
			r.Verdict.MX = pb.batch.Rows[i].Route.MX
		}
		kept = append(kept, r)
	}
	done = len(pb.waiting) == 0
	if len(kept) > 0 || done || len(rows) == 0 {
		emit(Results{Job: pb.batch.Job, Chunk: pb.batch.Chunk, Epoch: pb.batch.Epoch, Rows: kept, Held: f.heldRows(), Done: done})
	}
	switch {
	case done || !f.GetDone():
		return done, nil
	case f.GetFailed() != "":
		return true, errors.New(f.GetFailed())
	}
	return true, malformed("the last results came, and %d rows have none", len(pb.waiting))
}

// Single asks the node at once, or when it works by the table that the route is of. At the deadline of ctx the answer is
// UNKNOWN/timeout, whatever is late. A route of a table that is no longer ours is ErrOtherTable.
func (c *Client) Single(ctx context.Context, sr SingleRequest) (Answer, error) {
	table, err := c.awaitTable(ctx, sr.Route)
	if err != nil {
		return c.unanswered(ctx, &sr, err)
	}
	c.mu.Lock()
	node, usable := c.single, c.state.Usable && !c.state.Draining
	f := sr.toFrame(budget(ctx))
	f.Coordinator, f.Table = c.idFrame(), c.tableForPeer(table)
	c.mu.Unlock()
	if node == nil || !usable {
		return Answer{}, c.unusableError()
	}
	answer, err := node.Single(ctx, f)
	if err != nil {
		return c.unanswered(ctx, &sr, err)
	}
	v, err := answer.GetVerdict().verdict()
	if err != nil {
		return Answer{}, c.nodeError(err)
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

func (c *Client) unanswered(ctx context.Context, sr *SingleRequest, err error) (Answer, error) {
	deadline, ok := ctx.Deadline()
	late := ok && !time.Now().Before(deadline)
	switch {
	case late:
		v := engine.VerdictFor(engine.ReasonTimeout, "wire/timeout", sr.Flags, time.Now())
		v.ProviderID, v.ProviderName, v.MX = sr.Route.Provider.ID, sr.Route.Provider.Name, sr.Route.MX
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
	return Answer{}, c.nodeError(errors.New(status.Convert(err).Message()))
}

func (c *Client) unusableError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Draining {
		return c.drainingError()
	}
	return c.goneError()
}

func (c *Client) drainingError() error {
	return fmt.Errorf("node %s: it is stopping: %w", c.cfg.Node, ErrGone)
}
