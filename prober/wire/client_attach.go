package wire

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// clientStream is one stream to the node. Our requests, a batch and its cancellation, are bounded by the credit of the node. The queue of
// answers to the node has at most maxAnswers messages: a newer pong, or acknowledgement of the same batch, replaces a queued one.
type clientStream struct {
	wake   chan struct{} // the queue has something; holds one
	cancel context.CancelFunc

	// The client's mutex guards these.
	acceptsWork bool            // the node works by our table
	sentTable   *[8]byte        // the table that it was sent; nil when it has answered for that
	tableTimer  *time.Timer     // ends the stream of a node that does not answer; nil before a table was sent
	running     map[uint64]bool // batches that the node had at its hello

	mu      sync.Mutex // guards what follows; taken after the client's
	queue   []*CoordinatorFrame
	answers int                  // of queue
	pong    *CoordinatorFrame    // in queue; nil for none
	acks    map[uint64]*AckFrame // in queue, by batch
}

// maxAnswers bounds the queue for a node that sends and does not read.
const maxAnswers = 1 << 15

func (l *clientStream) push(f *CoordinatorFrame) {
	l.mu.Lock()
	l.queue = append(l.queue, f)
	l.mu.Unlock()
	l.signal()
}

func (l *clientStream) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// answer queues a message that the node asked for.
func (l *clientStream) answer(f *CoordinatorFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answerLocked(f)
}

func (l *clientStream) answerLocked(f *CoordinatorFrame) error {
	if l.answers >= maxAnswers {
		return malformed("%d answers wait for a node that does not read them", l.answers)
	}
	l.answers++
	l.queue = append(l.queue, f)
	l.signal()
	return nil
}

// answerPing answers the newest ping.
func (l *clientStream) answerPing(ping *PingFrame) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pong != nil {
		l.pong.Kind = &CoordinatorFrame_Pong{Pong: ping}
		return nil
	}
	l.pong = &CoordinatorFrame{Kind: &CoordinatorFrame_Pong{Pong: ping}}
	return l.answerLocked(l.pong)
}

// acknowledge tells the node that the results of a batch came, up to seq. It reports whether no older acknowledgement of it was queued.
func (l *clientStream) acknowledge(batch, seq uint64) (first bool, err error) {
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

func (l *clientStream) takeQueue() []*CoordinatorFrame {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue
	l.queue, l.answers, l.pong = nil, 0, nil
	clear(l.acks)
	return q
}

// attach makes a stream, sends the hello, and handles the node's messages until the stream ends.
func (c *Client) attach(ctx context.Context, node NodeClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(helloTimeout, cancel)
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
	if reason := c.refusalReason(first.GetHello()); reason != "" {
		_ = stream.Send(refusalFrame(reason)) // if that fails, Recv fails too
		return awaitRefusedEnd(stream, reason, cancel)
	}
	l := &clientStream{wake: make(chan struct{}, 1), cancel: cancel}
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
		if err := c.handleFrame(l, f); err != nil {
			l.push(refusalFrame(err.Error())) // only l.write may send now
			return awaitRefusedEnd(stream, err.Error(), cancel)
		}
	}
}

// write sends what is queued until the stream ends; Recv reports why.
func (l *clientStream) write(ctx context.Context, stream grpc.BidiStreamingClient[CoordinatorFrame, NodeFrame]) {
	for {
		for _, f := range l.takeQueue() {
			if stream.Send(f) != nil {
				l.cancel()
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

func refusalFrame(reason string) *CoordinatorFrame {
	return &CoordinatorFrame{Kind: &CoordinatorFrame_Refusal{Refusal: &RefusalFrame{Words: reason}}}
}

// awaitRefusedEnd waits a little until a refused node closes the stream, so that the reason arrives. A node that keeps sending
// is cut off.
func awaitRefusedEnd(stream grpc.BidiStreamingClient[CoordinatorFrame, NodeFrame], reason string, cancel context.CancelFunc) error {
	timer := time.AfterFunc(2*time.Second, cancel)
	defer timer.Stop()
	for range maxAnswers {
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	return refusedError{reason}
}

// hello is our hello, with the batches that wait for results.
func (c *Client) hello() *CoordinatorFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	table := c.cfg.Table().Hash()
	h := &CoordinatorHelloFrame{Protocol: ownVersions().lowest, ProtocolMost: ownVersions().highest, Version: c.cfg.Version, Coordinator: c.idFrame(),
		Table: table[:], Node: c.cfg.Node, Session: c.session}
	for number, pending := range c.batches {
		if pending.posted {
			h.Open = append(h.Open, &OpenFrame{Batch: number, Seq: pending.seq})
		}
	}
	return &CoordinatorFrame{Kind: &CoordinatorFrame_Hello{Hello: h}}
}

func (c *Client) idFrame() *CoordinatorIDFrame {
	return &CoordinatorIDFrame{Id: c.cfg.Coordinator.ID, Term: c.cfg.Coordinator.Term}
}

// refusalReason says why we will not work with the node; empty where we will.
func (c *Client) refusalReason(h *NodeHelloFrame) string {
	if h == nil {
		return "the first message must be a hello"
	}
	table := c.cfg.Table().Hash()
	return mismatch(peer{"the coordinator", c.cfg.Version, ownVersions(), table[:], c.cfg.Node},
		peer{"the node", h.GetVersion(), peerVersions(h.GetProtocol(), h.GetProtocolMost()), h.GetTable(), h.GetNode()})
}

// attached makes l the stream. The node takes work on it once it works by our table.
func (c *Client) attached(l *clientStream, h *NodeHelloFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = l
	c.protocol = ownVersions().common(peerVersions(h.GetProtocol(), h.GetProtocolMost()))
	c.table = tableHash(h.GetTable())
	c.status, c.statusAt = Status{}, time.Time{}
	c.state.Draining, c.state.LastHeard = h.GetDraining(), time.Now()
	c.state.Hello = Hello{Version: h.GetVersion(), Identities: readIdentities(h.GetIdentities()), Fresh: h.GetFresh()}
	l.running = map[uint64]bool{}
	for _, number := range h.GetRunning() {
		l.running[number] = true
	}
	for number, pending := range c.batches {
		pending.posted = pending.posted && (l.running[number] || pending.complete())
	}
	c.credit.setBounds(int(h.GetTotal()), int(h.GetWindow()))
	c.advanceTable()
}

func (c *Client) detached(l *clientStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.tableTimer != nil {
		l.tableTimer.Stop()
	}
	if c.stream == l {
		c.stream = nil
		c.state.Live = false
		c.credit.close()
	}
	c.wakeWatch()
}

// handleFrame applies one message. An error is a breach of the protocol.
func (c *Client) handleFrame(l *clientStream, f *NodeFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != l {
		return nil
	}
	c.state.LastHeard = time.Now()
	switch k := f.GetKind().(type) {
	case *NodeFrame_Ping:
		return l.answerPing(k.Ping)
	case *NodeFrame_Results:
		return c.handleResults(l, k.Results)
	case *NodeFrame_Credit:
		if len(k.Credit.GetClass()) > maxClassName {
			return malformed("a class with a name of %d bytes", len(k.Credit.GetClass()))
		}
		c.credit.set(k.Credit.GetClass(), int(k.Credit.GetRows()))
	case *NodeFrame_Status:
		c.handleStatus(k.Status, c.state.LastHeard)
	case *NodeFrame_Table:
		return c.handleTableTaken(l, k.Table)
	case *NodeFrame_Draining:
		c.state.Draining = true
		c.credit.rejectAll(c.drainingError())
		c.wakeWatch()
	}
	return nil
}

// handleResults hands a message to the batch that waits for it. The caller holds mu.
func (c *Client) handleResults(l *clientStream, f *ResultsFrame) error {
	pending := c.batches[f.GetBatch()]
	if pending != nil {
		switch {
		case f.GetSeq() > pending.seq+1:
			return malformed("results %d of a batch came after %d", f.GetSeq(), pending.seq)
		case f.GetSeq() == pending.seq+1:
			if err := pending.accept(f); err != nil {
				return err
			}
			pending.seq = f.GetSeq()
		}
	}
	first, err := l.acknowledge(f.GetBatch(), f.GetSeq())
	if err == nil && first && pending == nil && !f.GetDone() {
		err = l.answer(&CoordinatorFrame{Kind: &CoordinatorFrame_Cancel{Cancel: &CancelFrame{Batch: f.GetBatch()}}})
	}
	return err
}
