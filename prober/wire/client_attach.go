package wire

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// link is one stream to the node. Its queue is bounded by the credit of the node: a batch, a cancellation and the
// acknowledgements of what came; a newer pong replaces one that is still queued.
type link struct {
	wake chan struct{} // the queue has something; holds one
	end  context.CancelFunc

	mu    sync.Mutex // guards what follows; taken after the client's
	queue []*CoordinatorFrame
}

func (l *link) push(f *CoordinatorFrame) {
	l.mu.Lock()
	if n := len(l.queue); n > 0 && f.GetPong() != nil && l.queue[n-1].GetPong() != nil {
		l.queue[n-1] = f
	} else {
		l.queue = append(l.queue, f)
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *link) take() []*CoordinatorFrame {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue
	l.queue = nil
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
		return refuse(stream, words, cancel)
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
			return refuse(stream, err.Error(), cancel)
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

// refuse tells the node why, and waits a little for it to hang up so that the words arrive.
func refuse(stream grpc.BidiStreamingClient[CoordinatorFrame, NodeFrame], words string, cancel context.CancelFunc) error {
	timer := time.AfterFunc(2*time.Second, cancel)
	defer timer.Stop()
	if stream.Send(&CoordinatorFrame{Kind: &CoordinatorFrame_Refusal{Refusal: &RefusalFrame{Words: words}}}) == nil {
		for {
			if _, err := stream.Recv(); err != nil {
				break
			}
		}
	}
	return refusedError{words}
}

// hello is ours, with the batches that wait for results.
func (c *Client) hello() *CoordinatorFrame {
	c.mu.Lock()
	defer c.mu.Unlock()
	table := c.cfg.Table().Hash()
	h := &CoordinatorHelloFrame{Protocol: Protocol, Version: c.cfg.Version, Coordinator: c.idFrame(), Table: table[:], Node: c.cfg.Node, Session: c.session}
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
	return mismatch(peer{"the coordinator", c.cfg.Version, Protocol, table[:], c.cfg.Node},
		peer{"the node", h.GetVersion(), h.GetProtocol(), h.GetTable(), h.GetNode()})
}

// attached makes l the live stream and sends the batches that the node does not have.
func (c *Client) attached(l *link, h *NodeHelloFrame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = l
	c.status, c.statusAt = Status{}, time.Time{}
	c.state.Live, c.state.Usable, c.state.Draining, c.state.Problem, c.state.Heard = true, true, h.GetDraining(), "", time.Now()
	c.state.Hello = Hello{Version: h.GetVersion(), Identities: readIdentities(h.GetIdentities())}
	running := map[uint64]bool{}
	for _, number := range h.GetRunning() {
		running[number] = true
	}
	for number, call := range c.calls {
		if !running[number] && !call.over() {
			c.post(call)
		}
	}
	c.credit.open(int(h.GetTotal()), int(h.GetWindow()))
	c.cfg.Log.Info("attached to the node", "version", h.GetVersion(), "identities", len(h.GetIdentities()), "batches", len(running))
	c.tell()
}

func (c *Client) detached(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
		l.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Pong{Pong: k.Ping}})
	case *NodeFrame_Results:
		return c.results(l, k.Results)
	case *NodeFrame_Credit:
		c.credit.set(k.Credit.GetClass(), int(k.Credit.GetRows()))
	case *NodeFrame_Status:
		c.heardStatus(k.Status, c.state.Heard)
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
			call.seq = f.GetSeq()
			call.take(f)
		}
	}
	if call == nil && !f.GetDone() {
		l.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Cancel{Cancel: &CancelFrame{Batch: f.GetBatch()}}})
	}
	l.push(&CoordinatorFrame{Kind: &CoordinatorFrame_Ack{Ack: &AckFrame{Batch: f.GetBatch(), Seq: f.GetSeq()}}})
	return nil
}
