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

// serverStream is one stream of the coordinator. Its queue is bounded by what may be under way: results by rows, credits by
// classes, and a ping is only sent while few are unanswered; a table is answered for once, and takes longer to read than its answer.
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

func (a *serverStream) push(f *frames.NodeFrame) {
	a.mu.Lock()
	a.queue = append(a.queue, f)
	a.mu.Unlock()
	a.wake.signal()
}

// close ends the stream with the first reason it is given.
func (a *serverStream) close(reason error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reason == nil {
		a.reason = reason
		close(a.closed)
	}
}

// ping queues a ping, and keeps the time at which its lease would begin.
func (a *serverStream) ping(now time.Time) {
	a.mu.Lock()
	a.number++
	n := a.number
	a.sent = append(a.sent, sentPing{n, now})
	if len(a.sent) > maxUnanswered {
		a.sent = a.sent[1:]
	}
	a.mu.Unlock()
	a.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Ping{Ping: &frames.PingFrame{Number: n}}})
}

// answered is when the newest message was sent that the coordinator has surely received: our hello, or the ping that it
// answers.
func (a *serverStream) answered(pong *frames.PingFrame) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if pong == nil {
		return a.helloSentAt
	}
	i := slices.IndexFunc(a.sent, func(p sentPing) bool { return p.number == pong.GetNumber() })
	if i < 0 {
		return a.helloSentAt
	}
	at := a.sent[i].at
	a.sent = a.sent[i+1:]
	return at
}

// Attach serves one stream: this goroutine writes, another reads.
func (v service) Attach(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame]) error {
	s := v.s
	a := &serverStream{s: s, wake: newWakeup(), closed: make(chan struct{}), windows: map[string]uint32{}}
	greeted := make(chan struct{})
	s.work.Go(func() { a.read(stream, greeted) })
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == a {
		s.stream = nil
		s.dropBatches()
		s.cfg.Log.Warn("the coordinator's stream ended", "coordinator", s.coordinator.ID)
	}
	return err
}

// write sends what is queued until the stream ends.
func (a *serverStream) write(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame]) error {
	pings, credits := time.NewTicker(timing.PingEvery), time.NewTicker(time.Second)
	defer pings.Stop()
	defer credits.Stop()
	for {
		a.mu.Lock()
		queue := a.queue
		a.queue = nil
		a.mu.Unlock()
		for _, f := range queue {
			if results := f.GetResults(); results.GetDone() {
				a.endBatch(results.GetBatch())
			}
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		select {
		case <-a.wake:
		case <-pings.C:
			a.ping(time.Now())
			if a.s.cfg.Status != nil {
				a.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Status{Status: frames.NewStatusFrame(a.s.cfg.Status())}})
			}
		case <-credits.C:
			a.sendWindows()
		case <-a.closed:
			return a.reason
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// sendWindows sends the windows that have changed, of the classes in use.
func (a *serverStream) sendWindows() {
	a.s.mu.Lock()
	classes := slices.Collect(maps.Keys(a.s.classes))
	a.s.mu.Unlock()
	for _, class := range classes {
		rows := frames.Count(a.s.cfg.Window(class))
		current, ok := a.windows[class]
		if !ok {
			current = defaultWindow
		}
		if current == rows || !ok && len(a.windows) >= maxClasses {
			continue
		}
		a.windows[class] = rows
		a.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Credit{Credit: &frames.CreditFrame{Class: class, Rows: rows}}})
	}
}

// read handles the coordinator's messages, its hello first.
func (a *serverStream) read(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame], greeted chan<- struct{}) {
	first, err := stream.Recv()
	if err == nil {
		err = a.attach(first.GetHello(), time.Now())
	}
	if err != nil {
		a.close(err)
		return
	}
	close(greeted)
	for {
		f, err := stream.Recv()
		if err != nil {
			a.close(err)
			return
		}
		a.handleFrame(f, time.Now())
	}
}

// handleFrame applies one message.
func (a *serverStream) handleFrame(f *frames.CoordinatorFrame, now time.Time) {
	s := a.s
	s.mu.Lock()
	if s.stream != a {
		s.mu.Unlock()
		return
	}
	s.lastHeard = now
	if sent := a.answered(f.GetPong()); sent.After(s.leaseStart) { // the coordinator has answered: the lease is renewed
		s.leaseStart = sent
	}
	if s.isolated && now.Sub(s.leaseStart) < timing.Lease {
		s.isolated = false
		s.wake.signal()
	}
	switch k := f.GetKind().(type) {
	case *frames.CoordinatorFrame_Cancel:
		if r := s.batches[k.Cancel.GetBatch()]; r != nil {
			r.cancel()
		}
	case *frames.CoordinatorFrame_Refusal:
		s.cfg.Log.Warn("the coordinator refuses this node", "coordinator", s.coordinator.ID, "why", k.Refusal.GetWords())
		a.close(status.Error(codes.Aborted, "refused by the coordinator"))
	}
	s.mu.Unlock()
	switch k := f.GetKind().(type) {
	case *frames.CoordinatorFrame_Batch:
		a.startBatch(k.Batch)
	case *frames.CoordinatorFrame_Table:
		a.takeTable(k.Table)
	case *frames.CoordinatorFrame_Moved:
		s.cfg.KeysMoved()
	}
}

// attach makes this the live stream, if the node may work for this coordinator. Batches of an earlier stream are dropped.
func (a *serverStream) attach(h *frames.CoordinatorHelloFrame, now time.Time) error {
	s := a.s
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	reason := s.refusalReason(h, now)
	if reason != "" {
		s.cfg.Log.Warn("refused a coordinator", "coordinator", h.GetCoordinator().GetId(), "version", h.GetVersion(), "why", reason)
		return status.Error(codes.FailedPrecondition, reason)
	}
	coordinator := wire.Coordinator{ID: h.GetCoordinator().GetId(), Term: h.GetCoordinator().GetTerm()}
	if s.stream != nil {
		s.stream.close(errReplaced)
	}
	s.dropBatches()
	s.coordinator, s.stream, s.lastHeard = coordinator, a, now
	a.helloSentAt = now
	table := s.table.Hash()
	a.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Hello{Hello: &frames.NodeHelloFrame{Protocol: ownVersions().lowest, ProtocolMost: ownVersions().highest, Version: s.cfg.Version, Node: s.cfg.Node, Table: table[:],
		Identities: frames.NewIdentityFrames(s.cfg.Identities), Total: frames.Count(s.cfg.MaxRows), Window: defaultWindow, Draining: s.draining, Fresh: s.cfg.Fresh()}}})
	a.ping(now)
	s.cfg.Log.Info("attached to a coordinator", "coordinator", coordinator.ID, "term", coordinator.Term)
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
	case s.stopped || s.draining && s.coordinator != (wire.Coordinator{ID: coordinator.GetId(), Term: coordinator.GetTerm()}):
		return "the node is stopping"
	case s.coordinator.ID != "" && s.coordinator.ID != coordinator.GetId() && (s.stream != nil || silent < timing.CoordinatorTimeout):
		return fmt.Sprintf("node %s works for coordinator %s, which it heard %v ago; a cluster has one coordinator: stop one of the two, the node changes after %v of silence",
			s.cfg.Node, s.coordinator.ID, silent, timing.CoordinatorTimeout)
	case s.coordinator.ID == coordinator.GetId() && s.coordinator.Term > coordinator.GetTerm():
		return fmt.Sprintf("coordinator %s was started again since (term %d, this is %d)", coordinator.GetId(), s.coordinator.Term, coordinator.GetTerm())
	}
	return ""
}
