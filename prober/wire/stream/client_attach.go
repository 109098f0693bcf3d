package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"probity/prober/wire"
	"probity/prober/wire/frames"
	"probity/prober/wire/timing"
)

// clientStream is one stream to the node. What it queues is bounded: batches and their cancellations by the credit of
// the node, and a newer pong replaces one that is queued.
type clientStream struct {
	c      *Client
	wake   wakeup // the queue has something
	cancel context.CancelFunc
	unread atomic.Bool // the node took nothing for a node's timeout

	// The client's mutex guards these.
	acceptsWork bool        // the node works by our table
	sentTable   *[8]byte    // the table that it was sent; nil when it has answered for that
	tableTimer  *time.Timer // ends the stream of a node that does not answer; nil before a table was sent

	mu    sync.Mutex // guards what follows; taken after the client's
	queue []*frames.CoordinatorFrame
	pong  *frames.CoordinatorFrame // in queue; nil for none
}

var errUnread = errors.New("the node does not read what it is sent")

func (s *clientStream) push(f *frames.CoordinatorFrame) {
	s.mu.Lock()
	s.queue = append(s.queue, f)
	s.mu.Unlock()
	s.wake.signal()
}

// answer queues the answer to a ping.
func (s *clientStream) answer(ping *frames.PingFrame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pong := &frames.CoordinatorFrame_Pong{Pong: ping}
	if s.pong != nil {
		s.pong.Kind = pong
		return
	}
	s.pong = &frames.CoordinatorFrame{Kind: pong}
	s.queue = append(s.queue, s.pong)
	s.wake.signal()
}

// attach makes a stream, sends the hello, and handles the node's messages until the stream ends.
func (c *Client) attach(ctx context.Context, node frames.NodeClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(helloTimeout, cancel)
	defer timer.Stop()
	stream, err := node.Attach(ctx)
	if err != nil {
		return err
	}
	hello := &frames.CoordinatorHelloFrame{Protocol: ownVersions().lowest, ProtocolMost: ownVersions().highest,
		Version: c.cfg.Version, Coordinator: c.id,
		Node: c.cfg.Node}
	if err := stream.Send(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Hello{Hello: hello}}); err != nil {
		_, err = stream.Recv() // which knows why
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	timer.Stop()
	reason, h := "the first message must be a hello", first.GetHello()
	if h != nil {
		reason = mismatch(peer{"the coordinator", c.cfg.Version, ownVersions(), c.cfg.Node},
			peer{"the node", h.GetVersion(), peerVersions(h), h.GetNode()})
	}
	if reason != "" {
		_ = stream.Send(refusalFrame(reason)) // if that fails, Recv fails too
		return awaitRefusedEnd(stream, reason, cancel)
	}
	l := &clientStream{c: c, wake: newWakeup(), cancel: cancel}
	l.begin(h)
	defer l.end()

	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() { l.write(ctx, stream) })
	for {
		f, err := stream.Recv()
		switch {
		case l.unread.Load():
			return errUnread
		case err != nil:
			return err
		}
		if err := l.handleFrame(f); err != nil {
			l.push(refusalFrame(err.Error())) // only l.write may send now
			return awaitRefusedEnd(stream, err.Error(), cancel)
		}
	}
}

// write sends what is queued until the stream ends; Recv reports why. A node that takes nothing for a node's timeout
// does not read, and loses the stream: else batches whose time is over would pile up behind it.
func (s *clientStream) write(ctx context.Context, stream grpc.BidiStreamingClient[frames.CoordinatorFrame,
	frames.NodeFrame]) {
	timer := time.AfterFunc(timing.NodeTimeout, func() {
		s.unread.Store(true)
		s.cancel()
	})
	defer timer.Stop()
	timer.Stop()
	for {
		s.mu.Lock()
		queue := s.queue
		s.queue, s.pong = nil, nil
		s.mu.Unlock()
		for _, f := range queue {
			timer.Reset(timing.NodeTimeout)
			err := stream.Send(f)
			timer.Stop()
			if err != nil {
				s.cancel()
				return
			}
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

func refusalFrame(reason string) *frames.CoordinatorFrame {
	return &frames.CoordinatorFrame{
		Kind: &frames.CoordinatorFrame_Refusal{Refusal: &frames.RefusalFrame{Words: reason}},
	}
}

// awaitRefusedEnd waits a little until a refused node closes the stream, so that the reason arrives. A node that keeps
// sending is cut off.
func awaitRefusedEnd(stream grpc.BidiStreamingClient[frames.CoordinatorFrame, frames.NodeFrame], reason string,
	cancel context.CancelFunc) error {
	timer := time.AfterFunc(2*time.Second, cancel)
	defer timer.Stop()
	for {
		if _, err := stream.Recv(); err != nil {
			return refusedError{reason}
		}
	}
}

// begin makes this the client's stream. The node takes work on it once it works by our table.
func (s *clientStream) begin(h *frames.NodeHelloFrame) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = s
	c.table = tableHash(h.GetTable())
	c.status, c.statusAt = wire.Status{}, time.Time{}
	c.state.Draining, c.state.LastHeard = h.GetDraining(), time.Now()
	c.state.Hello = wire.Hello{Version: h.GetVersion(), Identities: frames.ReadIdentities(h.GetIdentities()),
		Fresh: h.GetFresh()}
	c.credit.setBounds(int(h.GetTotal()), int(h.GetWindow()))
	if c.keysMoved { // a message on the last stream may be lost
		c.keysMoved = false
		s.push(movedFrame())
	}
	s.advanceTable()
}

// KeysMoved tells the node that narrow keys have other owners: at once, or when it is attached again.
func (c *Client) KeysMoved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keysMoved = true
	if c.stream != nil {
		c.stream.push(movedFrame())
	}
}

func movedFrame() *frames.CoordinatorFrame {
	return &frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Moved{Moved: &frames.MovedFrame{}}}
}

// end leaves the client without a stream, and its batches without a node.
func (s *clientStream) end() {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.tableTimer != nil {
		s.tableTimer.Stop()
	}
	if c.stream == s {
		c.stream = nil
		c.state.Live = false
		c.credit.close()
		c.failBatches("the stream ended")
	}
	c.wake.signal()
}

// handleFrame applies one message. An error is a breach of the protocol.
func (s *clientStream) handleFrame(f *frames.NodeFrame) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != s {
		return nil
	}
	now := time.Now()
	c.state.LastHeard = now
	switch k := f.GetKind().(type) {
	case *frames.NodeFrame_Ping:
		s.answer(k.Ping)
	case *frames.NodeFrame_Results:
		if pb := c.batches[k.Results.GetBatch()]; pb != nil { // else its Verify has ended, and cancelled it
			return pb.accept(k.Results)
		}
	case *frames.NodeFrame_Credit:
		if len(k.Credit.GetClass()) > maxClassName {
			return frames.Malformed("a class with a name of %d bytes", len(k.Credit.GetClass()))
		}
		c.credit.set(k.Credit.GetClass(), int(k.Credit.GetRows()))
	case *frames.NodeFrame_Status:
		s := k.Status.Read()
		if took := now.Sub(c.statusAt).Seconds(); !c.statusAt.IsZero() && took > 0 && s.Answered >= c.status.Answered {
			s.RowsPerSecond = float64(s.Answered-c.status.Answered) / took
		}
		c.status, c.statusAt = s, now
	case *frames.NodeFrame_Table:
		return s.handleTableTaken(k.Table)
	case *frames.NodeFrame_Draining:
		c.state.Draining = true
		c.credit.rejectAll(c.unusable())
		c.wake.signal()
	}
	return nil
}
