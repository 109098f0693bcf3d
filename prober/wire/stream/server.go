package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"probity/engine"
	"probity/internal/spans"
	"probity/prober/wire"
	"probity/prober/wire/frames"
	"probity/prober/wire/timing"
)

// ServerConfig is what a node's Server is made of. Node, Table, Prober and Credentials are needed.
type ServerConfig struct {
	Node       string // its name, as in its certificate
	Version    string
	Identities []wire.Identity
	// Table is the node's own provider table: it works by that until a coordinator gives it another one.
	Table       *engine.Table
	Prober      wire.Prober
	Credentials credentials.TransportCredentials // ServerTLS; insecure ones for connections within a process
	// UseTable makes the prober work by a table; an error says why it cannot. It is not called while a batch is under
	// way whose results count. Default: every table is accepted.
	UseTable func(*engine.Table) error
	// Window says how many rows of a class may be under way: about what its budgets allow in half a minute. It is asked
	// once a second for each class in use. Default: defaultWindow for each.
	Window  func(class string) int
	MaxRows int // under way in all; default defaultMaxRows
	// Fresh reports that the node has asked no receiver since its start, nor was at work in the hour before it, so that
	// its routes may move to another source at once. Default: false.
	Fresh func() bool
	// SetIsolated is called when the node has lost its coordinator's lease and may start no probe, not even a retry of
	// its own, and when it has a lease again. The node begins isolated. The calls are from one goroutine.
	SetIsolated func(isolated bool)
	// KeysMoved is called when narrow keys of the cluster have other owners. Default: nothing is done.
	KeysMoved func()
	// Status returns the node's status; called with every ping. Default: none is sent.
	Status func() wire.Status
	Views  wire.Views // what people may see and do; default: nothing
	// Forget deletes what is kept of an address and reports whether there was a verdict. Default: nothing is kept.
	Forget func(engine.Address) (bool, error)
	Log    *slog.Logger  // default: none
	Tracer *spans.Tracer // default: no spans are recorded
}

// Server makes a Prober reachable to one coordinator.
type Server struct {
	cfg  ServerConfig
	wake wakeup // of watch, when a lease came
	work sync.WaitGroup

	tableMu sync.Mutex // held while the table changes; taken before mu

	mu             sync.Mutex    // guards what follows
	table          *engine.Table // that the node works by
	tableSwitches  int           // how often it has changed
	switchingTable bool          // the table is being changed: no work begins
	baseCtx        context.Context
	coordinator    wire.Coordinator // that the node works for
	stream         *serverStream    // the live stream; nil for none
	leaseStart     time.Time        // when the last ping was sent that was answered
	lastHeard      time.Time        // when the coordinator last said anything
	isolated       bool
	draining       bool // nothing new is taken
	stopped        bool // no coordinator may attach any more
	batches        map[uint64]*runningBatch
	rowCount                     // of all batches
	idle           chan struct{} // closed when the last batch ends; nil while not draining, and after
}

// NewServer makes a Server. It starts nothing.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Node == "" || cfg.Table == nil || cfg.Prober == nil || cfg.Credentials == nil {
		return nil, errors.New("wire: Node, Table, Prober and Credentials are needed")
	}
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = defaultMaxRows
	}
	if cfg.Window == nil {
		cfg.Window = func(string) int { return defaultWindow }
	}
	if cfg.Fresh == nil {
		cfg.Fresh = func() bool { return false }
	}
	if cfg.SetIsolated == nil {
		cfg.SetIsolated = func(bool) {}
	}
	if cfg.KeysMoved == nil {
		cfg.KeysMoved = func() {}
	}
	if cfg.UseTable == nil {
		cfg.UseTable = func(*engine.Table) error { return nil }
	}
	cfg.Log = orDiscard(cfg.Log)
	return &Server{cfg: cfg, table: cfg.Table, wake: newWakeup(), isolated: true, batches: map[uint64]*runningBatch{}},
		nil
}

// Run serves until ctx ends. Then it takes no new batches, returns unfinished rows, and returns within 25 seconds.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	baseCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.mu.Lock()
	s.baseCtx = baseCtx
	s.mu.Unlock()

	g := grpc.NewServer(grpc.Creds(s.cfg.Credentials), grpc.KeepaliveParams(serverKeepalive),
		grpc.KeepaliveEnforcementPolicy(keepalivePolicy),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.InitialWindowSize(windowSize),
		grpc.InitialConnWindowSize(windowSize),
		grpc.ConnectionTimeout(helloTimeout))
	frames.RegisterNodeServer(g, service{s: s})
	s.work.Go(func() { s.watch(baseCtx) })
	failed := make(chan error, 1)
	s.work.Go(func() { failed <- g.Serve(listener) })

	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("node %s: %w", s.cfg.Node, err)
	case <-ctx.Done():
		s.drain()
	}
	s.mu.Lock()
	s.draining, s.stopped = true, true
	if s.stream != nil {
		s.stream.close(errStopped)
	}
	s.dropBatches()
	s.mu.Unlock()
	late := time.AfterFunc(3*time.Second, g.Stop) // single calls that are under way have so long
	g.GracefulStop()
	late.Stop()
	stop()
	s.work.Wait()
	return err
}

// drain takes nothing more, returns all rows, and waits until they are on their way to the coordinator, for drainTime
// at most. The batches of a coordinator that is gone are dropped.
func (s *Server) drain() {
	returned := make(chan struct{})
	s.mu.Lock()
	s.cfg.Log.Info("draining", "batches", len(s.batches), "rows", s.rows)
	s.draining, s.idle = true, returned
	s.signalIdle()
	for _, r := range s.batches {
		r.cancel()
	}
	if s.stream != nil {
		s.stream.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Draining{Draining: &frames.DrainingFrame{}}})
	}
	s.mu.Unlock()

	end := time.NewTimer(drainTime)
	defer end.Stop()
	select {
	case <-returned:
	case <-end.C:
		s.cfg.Log.Warn("drain: some rows not returned")
	}
}

// signalIdle closes idle, once, when nothing is under way. The caller holds mu.
func (s *Server) signalIdle() {
	if s.idle != nil && len(s.batches) == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// watch ends what is under way when the lease does, and forgets a coordinator that stays away.
func (s *Server) watch(ctx context.Context) {
	reported := true
	s.cfg.SetIsolated(reported)
	timer := time.NewTimer(timing.Lease)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now := time.Now()
		left := s.leaseStart.Add(timing.Lease).Sub(now)
		if !s.isolated && left <= 0 {
			s.isolated = true
			s.cfg.Log.Warn("coordinator silent: no new probes until it is back", "coordinator", s.coordinator.ID,
				"silent", now.Sub(s.lastHeard))
			if s.stream != nil {
				s.stream.close(errSilent) // it may be reachable in one direction only: let the coordinator know
			}
			s.dropBatches()
		}
		if s.isolated && s.stream == nil && s.coordinator.ID != "" &&
			now.Sub(s.lastHeard) >= timing.CoordinatorTimeout {
			s.cfg.Log.Info("the coordinator's lease expired: any coordinator may attach", "coordinator",
				s.coordinator.ID)
			s.coordinator = wire.Coordinator{}
		}
		isolated := s.isolated
		s.mu.Unlock()
		if isolated {
			left = time.Second
		}
		if isolated != reported {
			reported = isolated
			s.cfg.SetIsolated(reported)
		}
		timer.Reset(left)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}
