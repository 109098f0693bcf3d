package wire

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
)

// ServerConfig is what a node's Server is made of. Node, Table, Prober and Credentials are needed.
type ServerConfig struct {
	Node       string // its name, as in its certificate
	Version    string
	Identities []Identity
	// Table is the node's own provider table: it works by that until a coordinator gives it another one.
	Table       func() *engine.Table
	Prober      Prober
	Credentials credentials.TransportCredentials // ServerTLS; insecure ones for connections within a process
	// Use makes a table the one that the prober works by. An error says why this node will not. It is not called while a batch is
	// under way whose results count. Default: it is taken.
	Use func(*engine.Table) error
	// Window says how many rows of a class may be under way: about what its budgets allow in half a minute. It is asked once
	// a second for each class in use. Default: DefaultWindow for each.
	Window  func(class string) int
	MaxRows int // under way in all; default DefaultMaxRows
	// Fresh reports that the node has asked no receiver since its start, nor was at work in the hour before it, so that its routes may
	// have another source at once. Default: it may have.
	Fresh func() bool
	// Alone is told when the node has lost its coordinator's lease and may start no probe, not even a retry of its own, and
	// when it has it again. It begins alone. It is called from one goroutine.
	Alone func(alone bool)
	// Status says how the node fares; asked with every ping. Default: nothing is told.
	Status func() Status
	Sight  Sight // what people may see and do; default: nothing
	// Forget deletes what is kept of an address and reports whether there was a verdict. Default: nothing is kept.
	Forget func(engine.Address) (bool, error)
	Log    *slog.Logger // default: none
}

// Server makes a Prober reachable to one coordinator.
type Server struct {
	cfg  ServerConfig
	wake chan struct{} // tells watch that a lease came; holds one
	work sync.WaitGroup

	turning sync.Mutex // held while the table changes; taken before mu

	mu       sync.Mutex    // guards what follows
	table    *engine.Table // that the node works by
	turns    int           // how often it has changed
	changing bool          // to another one: nothing begins
	base     context.Context
	lord     lord
	stream   *attachment // the live stream; nil for none
	leased   time.Time   // when the last ping was sent that was answered
	heard    time.Time   // when the coordinator last said anything
	alone    bool
	draining bool // nothing new is taken
	stopped  bool // no coordinator may attach any more
	runs     map[uint64]*run
	rows     int            // of all runs
	classes  map[string]int // rows of the runs of a class
	idle     chan struct{}  // closed when the last run goes; nil while not draining, and after
}

// lord is whom the node works for.
type lord struct {
	Coordinator
	session uint64
}

// NewServer makes a Server. It starts nothing.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Node == "" || cfg.Table == nil || cfg.Prober == nil || cfg.Credentials == nil {
		return nil, errors.New("wire: Node, Table, Prober and Credentials are needed")
	}
	if cfg.MaxRows <= 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	if cfg.Window == nil {
		cfg.Window = func(string) int { return DefaultWindow }
	}
	if cfg.Fresh == nil {
		cfg.Fresh = func() bool { return false }
	}
	if cfg.Alone == nil {
		cfg.Alone = func(bool) {}
	}
	if cfg.Use == nil {
		cfg.Use = func(*engine.Table) error { return nil }
	}
	cfg.Log = orDiscard(cfg.Log)
	return &Server{cfg: cfg, table: cfg.Table(), wake: make(chan struct{}, 1), alone: true, runs: map[uint64]*run{}, classes: map[string]int{}}, nil
}

// Run serves until ctx ends. Then it takes no new batches, lets unfinished rows go home, and returns within 25 seconds.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	s.mu.Lock()
	s.base = base
	s.mu.Unlock()

	g := grpc.NewServer(grpc.Creds(s.cfg.Credentials), grpc.KeepaliveParams(serverKeepalive), grpc.KeepaliveEnforcementPolicy(keepalivePolicy),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage), grpc.InitialWindowSize(windowSize), grpc.InitialConnWindowSize(windowSize),
		grpc.ConnectionTimeout(greeting))
	RegisterNodeServer(g, service{s: s})
	s.work.Go(func() { s.watch(base) })
	failed := make(chan error, 1)
	s.work.Go(func() { failed <- g.Serve(listener) })

	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("node %s: %w", s.cfg.Node, err)
	case <-ctx.Done():
		s.drain()
	}
	s.hangUp()
	stopGracefully(g)
	stop()
	s.work.Wait()
	return err
}

// stopGracefully gives singles that are under way three seconds.
func stopGracefully(g *grpc.Server) {
	timer := time.AfterFunc(3*time.Second, g.Stop)
	defer timer.Stop()
	g.GracefulStop()
}

// drain sends everything home and waits until the coordinator has it, for DrainTime at most, and not for one that has gone.
func (s *Server) drain() {
	if !s.waitHome(s.beginDrain()) {
		s.cfg.Log.Warn("the coordinator did not take all rows home; it will send them elsewhere")
	}
}

// beginDrain takes nothing more and ends what is under way. The channel is closed when the last of it is home.
func (s *Server) beginDrain() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Log.Info("draining", "batches", len(s.runs), "rows", s.rows)
	s.draining = true
	home := make(chan struct{})
	s.idle = home
	s.noteIdle()
	for _, r := range s.runs {
		r.cancel()
	}
	if s.stream != nil {
		s.stream.push(&NodeFrame{Kind: &NodeFrame_Draining{Draining: &DrainingFrame{}}})
	}
	return home
}

// noteIdle closes idle, once, when nothing is under way. The caller holds mu.
func (s *Server) noteIdle() {
	if s.idle != nil && len(s.runs) == 0 {
		close(s.idle)
		s.idle = nil
	}
}

func (s *Server) waitHome(home <-chan struct{}) bool {
	end, check := time.NewTimer(DrainTime), time.NewTicker(500*time.Millisecond)
	defer end.Stop()
	defer check.Stop()
	for lonely := 0; lonely < lonelyChecks; {
		select {
		case <-home:
			return true
		case <-end.C:
			return false
		case <-check.C:
			lonely = s.countLonely(lonely)
		}
	}
	return false
}

// lonelyChecks without a stream, half a second apart, end a drain: a coordinator that lives attaches sooner.
const lonelyChecks = 2 * int(retryMost/time.Second)

func (s *Server) countLonely(before int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		return 0
	}
	return before + 1
}

func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining, s.stopped = true, true
	if s.stream != nil {
		s.stream.close(errStopped)
	}
	for _, r := range s.runs {
		r.cancel()
	}
}

// watch ends what is under way when the lease does, and forgets a coordinator that stays away.
func (s *Server) watch(ctx context.Context) {
	told := true
	s.cfg.Alone(told)
	timer := time.NewTimer(Lease)
	defer timer.Stop()
	for {
		alone, next := s.look(time.Now())
		if alone != told {
			told = alone
			s.cfg.Alone(told)
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// look applies the passing of time, and says when to look again.
func (s *Server) look(now time.Time) (alone bool, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.leased.Add(Lease).Sub(now)
	if !s.alone && left <= 0 {
		s.alone = true
		s.cfg.Log.Warn("no word from the coordinator; starting no probe until it is back", "coordinator", s.lord.ID, "silent", now.Sub(s.heard))
		for _, r := range s.runs {
			r.cancel()
		}
		if s.stream != nil {
			s.stream.close(errSilent) // it may be deaf in one direction only: let the coordinator know
		}
	}
	if s.alone && s.stream == nil && s.lord.ID != "" && now.Sub(s.heard) >= Keep {
		s.cfg.Log.Info("the coordinator stayed away; any may attach", "coordinator", s.lord.ID)
		s.lord = lord{}
		s.dropRuns(func(*run) bool { return true })
	}
	if s.alone {
		left = time.Second
	}
	return s.alone, left
}

// lease notes that the coordinator answered what was sent at the given time. The caller holds mu.
func (s *Server) lease(sent, now time.Time) {
	s.heard = now
	if sent.After(s.leased) {
		s.leased = sent
	}
	if s.alone && now.Sub(s.leased) < Lease {
		s.alone = false
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}
