package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"probity/prober/wire"
	"probity/prober/wire/frames"
)

// defaultHold is how long a batch is held if its sender sets no time.
const defaultHold = 60 * time.Second

// pendingBatch is one batch under way on the client's stream. The client's mutex guards all but what Verify alone uses.
type pendingBatch struct {
	c      *Client
	number uint64
	batch  *wire.Batch
	until  time.Time // end of the hold
	wake   wakeup    // the inbox or failed has changed

	table    [8]byte                // that the routes of the batch are of
	recalled bool                   // our table is another one now: the node was told to return unanswered rows
	done     bool                   // the last results came
	inbox    []*frames.ResultsFrame // not yet emitted; bounded by the rows of the batch
	failed   error
	received []bool // of each row of the batch: it is in or before the inbox

	at      map[uint32]uint16 // row number -> index; not changed
	waiting []bool            // of each row: it is not emitted; Verify's own
	left    int               // rows that are waiting
}

// accept takes the next results. Each message brings rows that the batch still waits for, is the last, or says how many
// wait for a budget; of those the newest is kept. So no node makes us keep more than its batch needs.
func (pb *pendingBatch) accept(f *frames.ResultsFrame) error {
	rows := f.GetRow()
	if size := proto.Size(f); size > maxResults+len(rows)*maxResult {
		return frames.Malformed("results of %d rows have %d bytes", len(rows), size)
	}
	if pb.done {
		return frames.Malformed("results after the last")
	}
	if n := len(pb.inbox); n > 0 && reportsBudgetWait(pb.inbox[n-1]) && reportsBudgetWait(f) {
		pb.inbox[n-1] = f // the newest report without rows is enough
		return nil
	}
	for _, row := range rows {
		i, ok := pb.at[row]
		if !ok || pb.received[i] {
			return frames.Malformed("results of row %d, which the batch does not wait for", row)
		}
		pb.received[i] = true
	}
	pb.inbox = append(pb.inbox, f)
	pb.done = f.GetDone()
	pb.wake.signal()
	return nil
}

// reportsBudgetWait reports whether f says only how many rows wait for a budget.
func reportsBudgetWait(f *frames.ResultsFrame) bool { return len(f.GetRow()) == 0 && !f.GetDone() }

func (pb *pendingBatch) fail(err error) {
	pb.failed = err
	pb.wake.signal()
}

// Verify sends the batch when the node's credit allows it and emits what is returned. Its error is the node's: ErrGone
// if the node is given up, else what the node said. The rows that were not emitted then have no result.
func (c *Client) Verify(ctx context.Context, b *wire.Batch, hold time.Duration, emit func(wire.Results)) error {
	switch {
	case len(b.Rows) > wire.MaxRows:
		panic(fmt.Sprintf("BUG: a batch of %d rows", len(b.Rows)))
	case len(b.Rows) == 0:
		emit(returnedResults(b, nil))
		return nil
	case hold <= 0:
		hold = defaultHold
	}
	pb, err := c.admit(ctx, b, time.Now().Add(hold))
	switch {
	case errors.Is(err, errNoCredit), errors.Is(err, errRecalled):
		emit(returnedResults(b, allRows(b)))
		return nil
	case err != nil:
		return err
	}
	defer pb.close()
	if err := pb.follow(ctx, emit); err != nil {
		return &wire.Lost{Err: err, Rows: pb.waiting}
	}
	return nil
}

// allRows says of each row of a batch that it waits.
func allRows(b *wire.Batch) []bool { return slices.Repeat([]bool{true}, len(b.Rows)) }

// returnedResults is the end of a batch whose waiting rows are returned unasked.
func returnedResults(b *wire.Batch, waiting []bool) wire.Results {
	r := wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Done: true}
	for i := range b.Rows {
		row := &b.Rows[i]
		if waiting[i] {
			r.Rows = append(r.Rows, wire.Result{Row: row.Number, Outcome: wire.Returned, Attempt: row.Attempt})
		}
	}
	return r
}

// admit waits for credit and sends the batch: until the hold is over or ctx ends, with errNoCredit, or until the node
// is gone.
func (c *Client) admit(ctx context.Context, b *wire.Batch, until time.Time) (*pendingBatch, error) {
	w := &waiter{class: b.Class, rows: len(b.Rows), served: make(chan struct{})}
	c.mu.Lock()
	if err := c.unusable(); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.credit.queue = append(c.credit.queue, w)
	c.credit.grant()
	c.mu.Unlock()

	select {
	case <-w.served:
	default:
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		select {
		case <-w.served:
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.credit.queue, w); i >= 0 {
		c.credit.queue = slices.Delete(c.credit.queue, i, i+1)
		c.credit.grant() // a batch that waited behind it may fit
		return nil, errNoCredit
	}
	if w.rejected != nil {
		return nil, w.rejected
	}
	table := tableOf(b.Rows[0].Route) // its routes are made together, of one table
	err := c.unusable()
	switch {
	case err != nil: // it has gone since it had credit
	case c.stream == nil || !c.stream.acceptsWork: // the stream has ended since, or takes another table
		err = errNoCredit
	case table != c.table:
		err = errRecalled
	}
	if err != nil {
		c.credit.end(b.Class, len(b.Rows))
		return nil, err
	}
	c.last++
	n := len(b.Rows)
	pb := &pendingBatch{c: c, number: c.last, batch: b, until: until, wake: newWakeup(), table: table,
		received: make([]bool, n), at: make(map[uint32]uint16, n), waiting: allRows(b), left: n}
	for i := range b.Rows {
		pb.at[b.Rows[i].Number] = uint16(i)
	}
	c.batches[pb.number] = pb
	f := frames.NewBatchFrame(b, pb.number, max(time.Until(until), time.Second))
	f.Table = table[:]
	c.stream.push(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Batch{Batch: f}})
	return pb, nil
}

// close forgets the batch and gives its credit back. Results that the node still sends are dropped.
func (pb *pendingBatch) close() {
	c := pb.c
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.batches, pb.number)
	if c.stream != nil {
		c.stream.advanceTable()
	}
	c.credit.end(pb.batch.Class, len(pb.batch.Rows))
}

// cancel asks the node to return what it has not finished.
func (pb *pendingBatch) cancel() {
	pb.c.mu.Lock()
	defer pb.c.mu.Unlock()
	if pb.c.stream != nil {
		pb.c.stream.push(cancelFrame(pb.number))
	}
}

func cancelFrame(number uint64) *frames.CoordinatorFrame {
	return &frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Cancel{Cancel: &frames.CancelFrame{Batch: number}}}
}

// follow emits until the last row has its result, or the time that a node may take is over.
func (pb *pendingBatch) follow(ctx context.Context, emit func(wire.Results)) error {
	c := pb.c
	timer := time.NewTimer(time.Until(pb.until) + grace)
	defer timer.Stop()
	cancelled, recalled := ctx.Done(), false
	for {
		select {
		case <-pb.wake:
		case <-cancelled:
			cancelled = nil
			pb.cancel()
			timer.Reset(grace)
		case <-timer.C:
			pb.cancel()
			c.cfg.Log.Warn("batch not returned in time", "rows", pb.left)
			emit(returnedResults(pb.batch, pb.waiting))
			return nil
		}
		c.mu.Lock()
		parts, failed, returning := pb.inbox, pb.failed, pb.recalled
		pb.inbox = nil
		c.mu.Unlock()
		for _, f := range parts {
			if done, err := pb.emit(f, emit); done || err != nil {
				return c.nodeError(err)
			}
		}
		switch {
		case failed != nil:
			return failed
		case returning && !recalled:
			recalled = true
			timer.Reset(grace)
		}
	}
}

// emit passes on the rows of a message that the caller has not had yet. It reports the end of the batch.
func (pb *pendingBatch) emit(f *frames.ResultsFrame, emit func(wire.Results)) (done bool, err error) {
	part, err := f.Read()
	if err != nil {
		return false, err
	}
	rows := part.Rows
	part.Job = pb.batch.Job
	part.Chunk = pb.batch.Chunk
	part.Epoch = pb.batch.Epoch
	part.Rows = rows[:0]
	for _, r := range rows {
		i, ok := pb.at[r.Row]
		if !ok || !pb.waiting[i] {
			continue
		}
		pb.waiting[i] = false
		pb.left--
		if r.Outcome == wire.Settled {
			r.Verdict.MX = pb.batch.Rows[i].Route.MX
		}
		part.Rows = append(part.Rows, r)
	}
	last := part.Done
	part.Done = pb.left == 0
	if len(part.Rows) > 0 || part.Done || len(rows) == 0 {
		emit(part)
	}
	switch {
	case part.Done || !last:
		return part.Done, nil
	case f.GetFailed() != "":
		return true, errors.New(f.GetFailed())
	}
	return true, frames.Malformed("the last results came, and %d rows have none", pb.left)
}
