package wire

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// link is one stream to the node. What we say first, a batch and its cancellation, is bounded by the credit of the node. What
// answers the node is at most maxAnswers messages: a newer pong, or acknowledgement of the same batch, replaces a queued one.
type link struct {
	wake chan struct{} // the queue has something; holds one
	end  context.CancelFunc

	// The client's mutex guards these.
	takesWork bool            // the node works by our table
	asked     *[8]byte        // the table that it was sent; nil when it has answered for that
	overdue   *time.Timer     // ends the stream of a node that does not answer; nil before a table was sent
	running   map[uint64]bool // batches that the node had when it greeted

	mu      sync.Mutex // guards what follows; taken after the client's
	queue   []*CoordinatorFrame
	answers int                  // of queue
	pong    *CoordinatorFrame    // in queue; nil for none
	acks    map[uint64]*AckFrame // in queue, by batch
}

// maxAnswers bounds what waits for a node that talks and does not read.
const maxAnswers = 1 << 15

func (l *link) push(f *CoordinatorFrame) {
	l.mu.Lock()
	l.queue = append(l.queue, f)
	l.mu.Unlock()
	l.nudge()
}

func (l *link) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// answer queues a message that the node asked for.
func (l *link) answer(f *CoordinatorFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answerLocked(f)
}

func (l *link) answerLocked(f *CoordinatorFrame) error {
	if l.answers >= maxAnswers {
		return malformed("%d answers wait for a node that does not read them", l.answers)
	}
	l.answers++
	l.queue = append(l.queue, f)
	l.nudge()
	return nil
}

// answerPing answers the newest ping.
func (l *link) answerPing(ping *PingFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pong != nil {
		l.pong.Kind = &CoordinatorFrame_Pong{Pong: ping}
		return nil
	}
	l.pong = &CoordinatorFrame{Kind: &CoordinatorFrame_Pong{Pong: ping}}
	return l.answerLocked(l.pong)
}

// acknowledge tells the node that the results of a batch came, up to seq. It reports whether no older word of it was queued.
func (l *link) acknowledge(batch, seq uint64) (first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ack := l.acks[batch]; ack != nil {
		ack.Seq = max(ack.Seq, seq)
		return false, nil
	}
	ack := &AckFrame{Batch: batch, Seq: seq}
	if l.acks == nil {
		l.acks = make(map[uint64]*AckFrame)
	}
	l.acks[batch] = ack
	return true, l.answerLocked(&CoordinatorFrame{Kind: &CoordinatorFrame_Ack{Ack: ack}})
}

func (l *link) take() []*CoordinatorFrame {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue
	l.queue, l.answers, l.pong = nil, 0, nil
	clear(l.acks)
	return q
}

// attach makes a stream, greets, and follows it to its end.
func (c *Client) attach(ctx context.Context, node NodeClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(greeting, cancel)
	defer timer.Stop()
	stream, err := node.Attach(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(c.hello()); err != nil {
		_, err = stream.Recv() // which knows why
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	timer.Stop()
	if words := c.refusal(first.GetHello()); words != "" {
		_ = stream.Send(refusalFrame(words)) // if that fails, Recv fails too
		return hearRefused(stream, words, cancel)
	}
	l := &link{wake: make(chan struct{}, 1), end: cancel}
	c.attached(l, first.GetHello())
	defer c.detached(l)

	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { l.write(ctx, stream) })
	for {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := c.hear(l, f); err != nil {
			l.push(refusalFrame(err.Error())) // only l.write may send now
			return hearRefused(stream, err.Error(), cancel)
		}
	}
}

// write sends what is queued until the stream ends; Recv reports why.
func (l *link) write(ctx context.Context, stream grpc.BidiStreamingClient[CoordinatorFrame, NodeFrame]) {
	for {
		for _, f := range l.take() {
			if stream.Send(f) != nil {
				l.end()
				return
			}
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
	}
}

func refusalFrame(words string) *CoordinatorFrame {
	return &CoordinatorFrame{Kind: &CoordinatorFrame_Refusal{Refusal: &RefusalFrame{Words: words}}}
}

// hearRefused waits a little for a node that was told why to hang up, so that the words arrive. One that goes on and on is cut off.
func hearRefused(stream grpc.BidiStreamingClient[CoordinatorFrame, NodeFrame], words string, cancel context.CancelFunc) error {
	timer := time.AfterFunc(2*time.Second, cancel)
	defer timer.Stop()
	for range maxAnswers {
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	return refusedError{words}
}

// hello is ours, with the batches that wait for results.
func (c *Client) hello() *CoordinatorFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	table := c.cfg.Table().Hash()
	h := &CoordinatorHelloFrame{Protocol: ownVersions().least, ProtocolMost: ownVersions().most, Version: c.cfg.Version, Coordinator: c.idFrame(),
		Table: table[:], Node: c.cfg.Node, Session: c.session}
	for number, call := range c.calls {
		if call.posted {
			h.Open = append(h.Open, &OpenFrame{Batch: number, Seq: call.seq})
		}
	}
	return &CoordinatorFrame{Kind: &CoordinatorFrame_Hello{Hello: h}}
}

func (c *Client) idFrame() *CoordinatorIDFrame {
	return &CoordinatorIDFrame{Id: c.cfg.Coordinator.ID, Term: c.cfg.Coordinator.Term}
}

// refusal says why we will not work with the node; empty where we will.
func (c *Client) refusal(h *NodeHelloFrame) string {
	if h == nil {
		return "the first message must be a hello"
	}
	table := c.cfg.Table().Hash()
	return mismatch(peer{"the coordinator", c.cfg.Version, ownVersions(), table[:], c.cfg.Node},
		peer{"the node", h.GetVersion(), toldVersions(h.GetProtocol(), h.GetProtocolMost()), h.GetTable(), h.GetNode()})
}

// attached makes l the stream. The node takes work on it once it works by our table.
func (c *Client) attached(l *link, h *NodeHelloFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = l
	c.speaks = ownVersions().common(toldVersions(h.GetProtocol(), h.GetProtocolMost()))
	c.table = tableHash(h.GetTable())
	c.status, c.statusAt = Status{}, time.Time{}
	c.state.Draining, c.state.Heard = h.GetDraining(), time.Now()
	c.state.Hello = Hello{Version: h.GetVersion(), Identities: readIdentities(h.GetIdentities()), Fresh: h.GetFresh()}
	l.running = map[uint64]bool{}
	for _, number := range h.GetRunning() {
		l.running[number] = true
	}
	for number, call := range c.calls {
		call.posted = call.posted && (l.running[number] || call.over())
	}
	c.credit.bound(int(h.GetTotal()), int(h.GetWindow()))
	c.turn()
}

func (c *Client) detached(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.overdue != nil {
		l.overdue.Stop()
	}
	if c.stream == l {
		c.stream = nil
		c.state.Live = false
		c.credit.close()
	}
	c.tell()
}

// hear applies one message. An error is a breach of the protocol.
func (c *Client) hear(l *link, f *NodeFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != l {
		return nil
	}
	c.state.Heard = time.Now()
	switch k := f.GetKind().(type) {
	case *NodeFrame_Ping:
		return l.answerPing(k.Ping)
	case *NodeFrame_Results:
		return c.results(l, k.Results)
	case *NodeFrame_Credit:
		if len(k.Credit.GetClass()) > maxClassName {
			return malformed("a class with a name of %d bytes", len(k.Credit.GetClass()))
		}
		c.credit.set(k.Credit.GetClass(), int(k.Credit.GetRows()))
	case *NodeFrame_Status:
		c.heardStatus(k.Status, c.state.Heard)
	case *NodeFrame_Table:
		return c.heardTable(l, k.Table)
	case *NodeFrame_Draining:
		c.state.Draining = true
		c.credit.refuse(c.drained())
		c.tell()
	}
	return nil
}

// results hands a message to the call that waits for it. The caller holds mu.
func (c *Client) results(l *link, f *ResultsFrame) error {
	call := c.calls[f.GetBatch()]
	if call != nil {
		switch {
		case f.GetSeq() > call.seq+1:
			return malformed("results %d of a batch came after %d", f.GetSeq(), call.seq)
		case f.GetSeq() == call.seq+1:
			if err := call.take(f); err != nil {
				return err
			}
			call.seq = f.GetSeq()
		}
	}
	first, err := l.acknowledge(f.GetBatch(), f.GetSeq())
	if err == nil && first && call == nil && !f.GetDone() {
		err = l.answer(&CoordinatorFrame{Kind: &CoordinatorFrame_Cancel{Cancel: &CancelFrame{Batch: f.GetBatch()}}})
	}
	return err
}
