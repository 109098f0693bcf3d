package stream

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"probity/prober/wire"
	"probity/prober/wire/frames"
	"probity/prober/wire/timing"
)

// Why a node ends a stream that was live.
var (
	errStopped       = status.Error(codes.Unavailable, "the node is stopping")
	errSilent        = status.Error(codes.Unavailable, "the node had no answer to its pings")
	errTableSwitched = status.Error(codes.Aborted, "the node works by another provider table")
	errReplaced      = status.Error(codes.Aborted, "the coordinator attached again")
)

// service implements the gRPC service of a Server.
type service struct {
	frames.UnimplementedNodeServer
	s *Server
}

// serverStream is one stream of the coordinator. Its queue is bounded by what may be under way: results by rows,
// credits by classes, and a ping is only sent while few are unanswered; a table is answered for once, and takes longer
// to read than its answer.
type serverStream struct {
	s      *Server
	wake   wakeup // the queue has something
	closed chan struct{}

	mu          sync.Mutex // guards what follows; taken after the server's
	queue       []*frames.NodeFrame
	reason      error // set before closed is closed
	sent        []sentPing
	number      uint64
	helloSentAt time.Time         // when the hello was made
	windows     map[string]uint32 // as the coordinator knows them; the writing goroutine alone uses it
}

type sentPing struct {
	number uint64
	at     time.Time
}

// maxUnanswered pings are remembered: more than a lease has.
const maxUnanswered = 2 * int(timing.Lease/timing.PingEvery)

func (s *serverStream) push(f *frames.NodeFrame) {
	s.mu.Lock()
	s.queue = append(s.queue, f)
	s.mu.Unlock()
	s.wake.signal()
}

// close ends the stream with the first reason it is given.
func (s *serverStream) close(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil {
		s.reason = reason
		close(s.closed)
	}
}

// ping queues a ping, and keeps the time at which its lease would begin.
func (s *serverStream) ping(now time.Time) {
	s.mu.Lock()
	s.number++
	n := s.number
	s.sent = append(s.sent, sentPing{n, now})
	if len(s.sent) > maxUnanswered {
		s.sent = s.sent[1:]
	}
	s.mu.Unlock()
	s.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Ping{Ping: &frames.PingFrame{Number: n}}})
}

// answered returns the time at which the newest message was sent that the coordinator has surely received: our hello,
// or the ping that it answers.
func (s *serverStream) answered(pong *frames.PingFrame) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pong == nil {
		return s.helloSentAt
	}
	i := slices.IndexFunc(s.sent, func(p sentPing) bool { return p.number == pong.GetNumber() })
	if i < 0 {
		return s.helloSentAt
	}
	at := s.sent[i].at
	s.sent = s.sent[i+1:]
	return at
}

// Attach serves one stream: this goroutine writes, another reads.
func (s service) Attach(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame]) error {
	server := s.s
	a := &serverStream{s: server, wake: newWakeup(), closed: make(chan struct{}), windows: map[string]uint32{}}
	greeted := make(chan struct{})
	server.work.Go(func() { a.read(stream, greeted) })
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case <-greeted:
	case <-a.closed:
		return a.reason
	case <-timer.C:
		return status.Error(codes.DeadlineExceeded, "no hello came")
	}
	err := a.write(stream)
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.stream == a {
		server.stream = nil
		server.dropBatches()
		server.cfg.Log.Warn("the coordinator's stream ended", "coordinator", server.coordinator.ID)
	}
	return err
}

// write sends what is queued until the stream ends.
func (s *serverStream) write(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame]) error {
	pings, credits := time.NewTicker(timing.PingEvery), time.NewTicker(time.Second)
	defer pings.Stop()
	defer credits.Stop()
	for {
		s.mu.Lock()
		queue := s.queue
		s.queue = nil
		s.mu.Unlock()
		for _, f := range queue {
			if results := f.GetResults(); results.GetDone() {
				s.endBatch(results.GetBatch())
			}
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		select {
		case <-s.wake:
		case <-pings.C:
			s.ping(time.Now())
			if s.s.cfg.Status != nil {
				s.push(&frames.NodeFrame{
					Kind: &frames.NodeFrame_Status{Status: frames.NewStatusFrame(s.s.cfg.Status())},
				})
			}
		case <-credits.C:
			s.sendWindows()
		case <-s.closed:
			return s.reason
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// sendWindows sends the windows that have changed, of the classes in use.
func (s *serverStream) sendWindows() {
	s.s.mu.Lock()
	classes := slices.Collect(maps.Keys(s.s.classes))
	s.s.mu.Unlock()
	for _, class := range classes {
		rows := frames.Count(s.s.cfg.Window(class))
		current, ok := s.windows[class]
		if !ok {
			current = defaultWindow
		}
		if current == rows || !ok && len(s.windows) >= maxClasses {
			continue
		}
		s.windows[class] = rows
		s.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Credit{Credit: &frames.CreditFrame{Class: class, Rows: rows}}})
	}
}

// read handles the coordinator's messages, its hello first.
func (s *serverStream) read(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame],
	greeted chan<- struct{}) {
	first, err := stream.Recv()
	if err == nil {
		err = s.attach(first.GetHello(), time.Now())
	}
	if err != nil {
		s.close(err)
		return
	}
	close(greeted)
	for {
		f, err := stream.Recv()
		if err != nil {
			s.close(err)
			return
		}
		s.handleFrame(f, time.Now())
	}
}

// handleFrame applies one message.
func (s *serverStream) handleFrame(f *frames.CoordinatorFrame, now time.Time) {
	server := s.s
	server.mu.Lock()
	if server.stream != s {
		server.mu.Unlock()
		return
	}
	server.lastHeard = now
	// the coordinator has answered: the lease is renewed
	if sent := s.answered(f.GetPong()); sent.After(server.leaseStart) {
		server.leaseStart = sent
	}
	if server.isolated && now.Sub(server.leaseStart) < timing.Lease {
		server.isolated = false
		server.wake.signal()
	}
	switch k := f.GetKind().(type) {
	case *frames.CoordinatorFrame_Cancel:
		if r := server.batches[k.Cancel.GetBatch()]; r != nil {
			r.cancel()
		}
	case *frames.CoordinatorFrame_Refusal:
		server.cfg.Log.Warn("the coordinator refuses this node", "coordinator", server.coordinator.ID, "why",
			k.Refusal.GetWords())
		s.close(status.Error(codes.Aborted, "refused by the coordinator"))
	}
	server.mu.Unlock()
	switch k := f.GetKind().(type) {
	case *frames.CoordinatorFrame_Batch:
		s.startBatch(k.Batch)
	case *frames.CoordinatorFrame_Table:
		s.takeTable(k.Table)
	case *frames.CoordinatorFrame_Moved:
		server.cfg.KeysMoved()
	}
}

// attach makes this the live stream, if the node may work for this coordinator. Batches of an earlier stream are
// dropped.
func (s *serverStream) attach(h *frames.CoordinatorHelloFrame, now time.Time) error {
	server := s.s
	server.tableMu.Lock()
	defer server.tableMu.Unlock()
	server.mu.Lock()
	defer server.mu.Unlock()
	reason := server.refusalReason(h, now)
	if reason != "" {
		server.cfg.Log.Warn("refused a coordinator", "coordinator", h.GetCoordinator().GetId(), "version",
			h.GetVersion(), "why", reason)
		return status.Error(codes.FailedPrecondition, reason)
	}
	coordinator := wire.Coordinator{ID: h.GetCoordinator().GetId(), Term: h.GetCoordinator().GetTerm()}
	if server.stream != nil {
		server.stream.close(errReplaced)
	}
	server.dropBatches()
	server.coordinator, server.stream, server.lastHeard = coordinator, s, now
	s.helloSentAt = now
	table := server.table.Hash()
	s.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Hello{Hello: &frames.NodeHelloFrame{Protocol: ownVersions().lowest,
		ProtocolMost: ownVersions().highest, Version: server.cfg.Version, Node: server.cfg.Node, Table: table[:],
		Identities: frames.NewIdentityFrames(server.cfg.Identities), Total: frames.Count(server.cfg.MaxRows),
		Window: defaultWindow, Draining: server.draining, Fresh: server.cfg.Fresh()}}})
	s.ping(now)
	server.cfg.Log.Info("attached to a coordinator", "coordinator", coordinator.ID, "term", coordinator.Term)
	return nil
}

// refusalReason says why this node will not work for a coordinator; empty where it will. The caller holds mu.
func (s *Server) refusalReason(h *frames.CoordinatorHelloFrame, now time.Time) string {
	if h == nil {
		return "the first message must be a hello"
	}
	us := peer{"the node", s.cfg.Version, ownVersions(), s.cfg.Node}
	if reason := mismatch(us, peer{"the coordinator", h.GetVersion(), peerVersions(h), h.GetNode()}); reason != "" {
		return reason
	}
	coordinator := h.GetCoordinator()
	silent := now.Sub(s.lastHeard).Round(time.Second)
	switch {
	case coordinator.GetId() == "":
		return "a coordinator without an id"
	case s.stopped || s.draining && s.coordinator != (wire.Coordinator{ID: coordinator.GetId(),
		Term: coordinator.GetTerm()}):
		return "the node is stopping"
	case s.coordinator.ID != "" && s.coordinator.ID != coordinator.GetId() &&
		(s.stream != nil || silent < timing.CoordinatorTimeout):
		return fmt.Sprintf("node %s works for coordinator %s, which it heard %v ago; a cluster has one coordinator: stop one of the two, the node changes after %v of silence",
			s.cfg.Node, s.coordinator.ID, silent, timing.CoordinatorTimeout)
	case s.coordinator.ID == coordinator.GetId() && s.coordinator.Term > coordinator.GetTerm():
		return fmt.Sprintf("coordinator %s was started again since (term %d, this is %d)", coordinator.GetId(),
			s.coordinator.Term, coordinator.GetTerm())
	}
	return ""
}
