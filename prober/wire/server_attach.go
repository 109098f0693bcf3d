package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Why a node ends a stream that was live.
var (
	errStopped       = status.Error(codes.Unavailable, "the node is stopping")
	errSilent        = status.Error(codes.Unavailable, "the node had no answer to its pings")
	errTableSwitched = status.Error(codes.Aborted, "the node works by another provider table")
	errOwnTable      = status.Error(codes.Unavailable, "the node has another provider table now")
	errReplaced      = status.Error(codes.Aborted, "the coordinator attached again")
)

// service implements the gRPC service of a Server.
type service struct {
	UnimplementedNodeServer
	s *Server
}

// serverStream is one stream of the coordinator. Its queue is bounded by what may be under way: results by rows, credits by
// classes, and a ping is only sent while few are unanswered; a table is answered for once, and takes longer to read than its answer.
type serverStream struct {
	protocol uint32        // the protocol; set before the stream is live
	wake     chan struct{} // the queue has something; holds one
	closed   chan struct{}

	mu          sync.Mutex // guards what follows; taken after the server's
	queue       []*NodeFrame
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
const maxUnanswered = 2 * int(Lease/PingEvery)

func newServerStream() *serverStream {
	return &serverStream{wake: make(chan struct{}, 1), closed: make(chan struct{}), windows: map[string]uint32{}}
}

func (a *serverStream) push(f *NodeFrame) {
	a.mu.Lock()
	a.queue = append(a.queue, f)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *serverStream) takeQueue() []*NodeFrame {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queue
	a.queue = nil
	return q
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
	if a.sent = append(a.sent, sentPing{n, now}); len(a.sent) > maxUnanswered {
		a.sent = a.sent[1:]
	}
	a.mu.Unlock()
	a.push(&NodeFrame{Kind: &NodeFrame_Ping{Ping: &PingFrame{Number: n}}})
}

// answered is when the newest message was sent that the coordinator has surely received: our hello, or the ping that it
// answers.
func (a *serverStream) answered(pong *PingFrame) time.Time {
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
func (v service) Attach(stream grpc.BidiStreamingServer[CoordinatorFrame, NodeFrame]) error {
	s, a := v.s, newServerStream()
	greeted := make(chan struct{})
	s.work.Go(func() { s.read(stream, a, greeted) })
	timer := time.NewTimer(helloTimeout)
	defer timer.Stop()
	select {
	case <-greeted:
	case <-a.closed:
		return a.reason
	case <-timer.C:
		return status.Error(codes.DeadlineExceeded, "no hello came")
	}
	err := s.write(stream, a)
	s.detach(a)
	return err
}

// write sends what is queued until the stream ends.
func (s *Server) write(stream grpc.BidiStreamingServer[CoordinatorFrame, NodeFrame], a *serverStream) error {
	pings, credits := time.NewTicker(PingEvery), time.NewTicker(time.Second)
	defer pings.Stop()
	defer credits.Stop()
	for {
		for _, f := range a.takeQueue() {
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		select {
		case <-a.wake:
		case <-pings.C:
			a.ping(time.Now())
			if s.cfg.Status != nil {
				a.push(statusFrame(s.cfg.Status()))
			}
		case <-credits.C:
			s.grant(a)
		case <-a.closed:
			return a.reason
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// read handles the coordinator's messages, its hello first.
func (s *Server) read(stream grpc.BidiStreamingServer[CoordinatorFrame, NodeFrame], a *serverStream, greeted chan<- struct{}) {
	first, err := stream.Recv()
	if err != nil {
		a.close(err)
		return
	}
	if err := s.attach(a, first.GetHello(), time.Now()); err != nil {
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
		s.handleFrame(a, f, time.Now())
	}
}

// handleFrame applies one message.
func (s *Server) handleFrame(a *serverStream, f *CoordinatorFrame, now time.Time) {
	s.mu.Lock()
	if s.stream != a {
		s.mu.Unlock()
		return
	}
	s.renewLease(a.answered(f.GetPong()), now)
	switch k := f.GetKind().(type) {
	case *CoordinatorFrame_Ack:
		s.acknowledge(k.Ack.GetBatch(), k.Ack.GetSeq())
	case *CoordinatorFrame_Cancel:
		if r := s.batches[k.Cancel.GetBatch()]; r != nil {
			r.cancel()
		}
	case *CoordinatorFrame_Refusal:
		s.cfg.Log.Warn("the coordinator refuses this node", "coordinator", s.coordinator.ID, "why", k.Refusal.GetWords())
		a.close(status.Error(codes.Aborted, "refused by the coordinator"))
	}
	s.mu.Unlock()
	switch k := f.GetKind().(type) {
	case *CoordinatorFrame_Batch:
		s.startBatch(a, k.Batch)
	case *CoordinatorFrame_Table:
		s.useCoordinatorTable(a, k.Table)
	}
}

// attach makes a the live stream, if the node may work for this coordinator.
func (s *Server) attach(a *serverStream, h *CoordinatorHelloFrame, now time.Time) error {
	s.tableMu.Lock()
	defer s.tableMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	a.protocol = ownVersions().common(peerVersions(h.GetProtocol(), h.GetProtocolMost()))
	reason := s.refusalReason(h, now)
	if reason == "" && a.protocol < tableProtocol {
		reason = s.useOwnTable()
	}
	if reason != "" {
		s.cfg.Log.Warn("refused a coordinator", "coordinator", h.GetCoordinator().GetId(), "version", h.GetVersion(), "why", reason)
		return status.Error(codes.FailedPrecondition, reason)
	}
	coordinator := attachedCoordinator{Coordinator{h.GetCoordinator().GetId(), h.GetCoordinator().GetTerm()}, h.GetSession()}
	if s.stream != nil {
		s.stream.close(errReplaced)
	}
	running := s.resume(coordinator, h.GetOpen())
	s.coordinator, s.stream, s.lastHeard = coordinator, a, now
	s.greet(a, running, now)
	s.cfg.Log.Info("attached to a coordinator", "coordinator", coordinator.ID, "term", coordinator.Term, "batches", len(running))
	return nil
}

// refusalReason says why this node will not work for a coordinator; empty where it will. The caller holds mu.
func (s *Server) refusalReason(h *CoordinatorHelloFrame, now time.Time) string {
	if h == nil {
		return "the first message must be a hello"
	}
	table := s.cfg.Table().Hash() // which counts where the coordinator cannot send its own
	us := peer{"the node", s.cfg.Version, ownVersions(), table[:], s.cfg.Node}
	if reason := mismatch(us, peer{"the coordinator", h.GetVersion(), peerVersions(h.GetProtocol(), h.GetProtocolMost()), h.GetTable(), h.GetNode()}); reason != "" {
		return reason
	}
	coordinator := h.GetCoordinator()
	silent := now.Sub(s.lastHeard).Round(time.Second)
	switch {
	case coordinator.GetId() == "":
		return "a coordinator without an id"
	case s.stopped || s.draining && s.coordinator.Coordinator != (Coordinator{coordinator.GetId(), coordinator.GetTerm()}):
		return "the node is stopping"
	case s.coordinator.ID != "" && s.coordinator.ID != coordinator.GetId() && (s.stream != nil || silent < CoordinatorTimeout):
		return fmt.Sprintf("node %s works for coordinator %s, which it heard %v ago; a cluster has one coordinator: stop one of the two, the node changes after %v of silence",
			s.cfg.Node, s.coordinator.ID, silent, CoordinatorTimeout)
	case s.coordinator.ID == coordinator.GetId() && s.coordinator.Term > coordinator.GetTerm():
		return fmt.Sprintf("coordinator %s was started again since (term %d, this is %d)", coordinator.GetId(), s.coordinator.Term, coordinator.GetTerm())
	}
	return ""
}

// resume keeps the batches that the coordinator still waits for, less what it has seen, and drops the others: all of them when
// it is not the one whose session they are of. The caller holds mu.
func (s *Server) resume(coordinator attachedCoordinator, open []*OpenFrame) (running []uint64) {
	waiting := map[uint64]uint64{}
	if coordinator == s.coordinator {
		for _, o := range open {
			waiting[o.GetBatch()] = o.GetSeq()
		}
	}
	s.dropBatches(func(r *runningBatch) bool { _, ok := waiting[r.number]; return !ok })
	for number, seq := range waiting {
		if s.batches[number] != nil {
			running = append(running, number)
			s.acknowledge(number, seq)
		}
	}
	slices.Sort(running)
	return running
}

// greet queues our hello, what the coordinator missed, and the first ping. The caller holds mu.
func (s *Server) greet(a *serverStream, running []uint64, now time.Time) {
	table := s.table.Hash()
	a.helloSentAt = now
	a.push(&NodeFrame{Kind: &NodeFrame_Hello{Hello: &NodeHelloFrame{Protocol: ownVersions().lowest, ProtocolMost: ownVersions().highest, Version: s.cfg.Version, Node: s.cfg.Node, Table: table[:],
		Identities: identityFrames(s.cfg.Identities), Running: running, Total: count(s.cfg.MaxRows), Window: DefaultWindow, Draining: s.draining, Fresh: s.cfg.Fresh()}}})
	for _, number := range running {
		if r := s.batches[number]; r != nil {
			for _, f := range r.unacked {
				a.push(&NodeFrame{Kind: &NodeFrame_Results{Results: f}})
			}
		}
	}
	a.ping(now)
}

// grant sends the windows that have changed, of the classes in use.
func (s *Server) grant(a *serverStream) {
	s.mu.Lock()
	classes := make([]string, 0, len(s.classes))
	for class := range s.classes {
		classes = append(classes, class)
	}
	s.mu.Unlock()
	for _, class := range classes {
		rows := count(s.cfg.Window(class))
		current, ok := a.windows[class]
		if !ok {
			current = DefaultWindow
		}
		if current == rows || !ok && len(a.windows) >= maxClasses {
			continue
		}
		a.windows[class] = rows
		a.push(&NodeFrame{Kind: &NodeFrame_Credit{Credit: &CreditFrame{Class: class, Rows: rows}}})
	}
}

func (s *Server) detach(a *serverStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == a {
		s.stream = nil
		s.cfg.Log.Warn("the coordinator's stream ended", "coordinator", s.coordinator.ID)
	}
}

// Single answers a single call, if it comes from the coordinator that gives the lease.
func (v service) Single(ctx context.Context, f *AskFrame) (*AnswerFrame, error) {
	if err := v.s.checkCoordinator(f.GetCoordinator()); err != nil {
		return nil, err
	}
	table, tableSwitches, err := v.s.tableOf(f.GetTable())
	if err != nil {
		return nil, err
	}
	request, err := f.request(table)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if budget := time.Duration(f.GetBudgetNs()); budget > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, budget)
		defer cancel()
	}
	answer, err := v.s.cfg.Prober.Single(ctx, request)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if _, now, err := v.s.tableOf(f.GetTable()); len(f.GetTable()) > 0 && (err != nil || now != tableSwitches) {
		return nil, errTableSwitched // the table changed meanwhile: the answer may be judged by two
	}
	return &AnswerFrame{Node: answer.Node, Verdict: verdictFrame(&answer.Verdict)}, nil
}

func (s *Server) checkCoordinator(coordinator *CoordinatorIDFrame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return errStopped
	case s.coordinator.ID != coordinator.GetId() || s.coordinator.Term != coordinator.GetTerm():
		return status.Error(codes.FailedPrecondition, "node "+s.cfg.Node+" works for another coordinator")
	case s.isolated:
		return status.Error(codes.Unavailable, "node "+s.cfg.Node+" has no lease")
	}
	return nil
}
