package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/frames"
	"probity/prober/wire/timing"
)

// ClientConfig is what a Client is made of. Node, Coordinator, Table, Dial and Credentials are needed.
type ClientConfig struct {
	Node        string // the node that is meant
	Version     string // ours
	Coordinator wire.Coordinator
	Table       func() *engine.Table
	Dial        func(context.Context) (net.Conn, error)
	Credentials credentials.TransportCredentials // ClientTLS; insecure ones for connections within a process
	// Changed is called with each new State, from one goroutine.
	Changed func(State)
	Log     *slog.Logger // default: none
}

// State is what a Client knows of its node.
type State struct {
	Live      bool // the stream is there
	Usable    bool // it is, or was within NodeTimeout
	Draining  bool
	Hello     wire.Hello // of the last stream; zero where there was none
	LastHeard time.Time  // when the node last said anything; zero for never
	Problem   string     // why there is no stream, for people
	Rows      int        // under way
}

// Client is a Prober at another node. It is usable while Run runs and has a stream.
type Client struct {
	cfg  ClientConfig
	id   *frames.CoordinatorIDFrame // in each request
	wake wakeup                     // of watch

	mu            sync.Mutex // guards what follows
	state         State
	stream        *clientStream // the live stream; nil for none
	single        frames.NodeClient
	batches       map[uint64]*pendingBatch
	last          uint64 // number of the newest batch
	credit        credit
	keysMoved     bool          // since the last stream began
	table         [8]byte       // that the node works by, as far as it has said
	tableSwitched chan struct{} // closed, and replaced, when it takes work by another table or no more work at all

	status   wire.Status
	statusAt time.Time
}

var _ wire.Prober = (*Client)(nil)

// NewClient makes a Client. It starts nothing.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.Node == "" || cfg.Coordinator.ID == "" || cfg.Table == nil || cfg.Dial == nil || cfg.Credentials == nil {
		return nil, errors.New("wire: Node, Coordinator, Table, Dial and Credentials are needed")
	}
	if cfg.Changed == nil {
		cfg.Changed = func(State) {}
	}
	cfg.Log = orDiscard(cfg.Log).With("node", cfg.Node)
	return &Client{cfg: cfg, id: &frames.CoordinatorIDFrame{Id: cfg.Coordinator.ID, Term: cfg.Coordinator.Term},
		tableSwitched: make(chan struct{}), wake: newWakeup(), batches: map[uint64]*pendingBatch{}}, nil
}

// State returns what is known now.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Rows = c.credit.rows
	return s
}

// Status is the node's newest status; zero if the last stream brought none.
func (c *Client) Status() wire.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Run attaches to the node, again whenever the stream breaks, until ctx ends. Waits between tries double from
// minRetryWait to MaxRetryWait, with jitter, so that a node that comes back does not get all connections at once. After
// a refusal it waits refusedRetryWait.
func (c *Client) Run(ctx context.Context) error {
	bulk, err := c.conn()
	if err != nil {
		return err
	}
	defer func() { _ = bulk.Close() }()
	single, err := c.conn()
	if err != nil {
		return err
	}
	defer func() { _ = single.Close() }()
	c.mu.Lock()
	c.single = frames.NewNodeClient(single)
	c.mu.Unlock()

	var work sync.WaitGroup
	work.Go(func() { c.watch(ctx) })
	for wait := minRetryWait; ctx.Err() == nil; {
		bulk.ResetConnectBackoff()
		began := time.Now()
		err := c.attach(ctx, frames.NewNodeClient(bulk))
		if ctx.Err() != nil {
			break
		}
		reason := "the stream ended"
		if err != nil {
			reason = status.Convert(err).Message()
		}
		c.mu.Lock()
		c.recordProblem(reason)
		c.mu.Unlock()
		c.wake.signal()
		var own refusedError
		switch {
		case errors.As(err, &own), status.Code(err) == codes.FailedPrecondition:
			wait = refusedRetryWait
		case time.Since(began) > timing.MaxRetryWait:
			wait = minRetryWait
		default:
			wait = min(2*wait, timing.MaxRetryWait)
		}
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	c.giveUp("we are stopping")
	c.mu.Unlock()
	work.Wait()
	return nil
}

// conn is a connection to the node; it dials when it is used. Single calls have one of their own, so that no batch
// delays them.
func (c *Client) conn() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+c.cfg.Node, grpc.WithTransportCredentials(c.cfg.Credentials),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.cfg.Dial(ctx) }),
		grpc.WithKeepaliveParams(clientKeepalive), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(windowSize), grpc.WithInitialConnWindowSize(windowSize),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", c.cfg.Node, err)
	}
	return conn, nil
}

// refusedError is our own refusal of a node.
type refusedError struct{ reason string }

func (e refusedError) Error() string { return e.reason }

// recordProblem keeps why there is no stream, and logs it once. The caller holds mu.
func (c *Client) recordProblem(reason string) {
	if c.state.Problem != reason {
		c.cfg.Log.Warn("not attached to the node", "why", reason)
	}
	c.state.Problem = reason
}

// watch gives the node up when it has been silent for NodeTimeout, and reports each new State.
func (c *Client) watch(ctx context.Context) {
	var reported State
	timer := time.NewTimer(timing.NodeTimeout)
	defer timer.Stop()
	for {
		c.mu.Lock()
		left := time.Until(c.state.LastHeard.Add(timing.NodeTimeout))
		if c.state.Usable && left <= 0 {
			c.giveUp(fmt.Sprintf("silent for %v", timing.NodeTimeout))
		}
		c.mu.Unlock()
		if state := c.State(); !sameState(reported, state) {
			reported = state
			c.cfg.Changed(state)
		}
		if left <= 0 {
			left = timing.NodeTimeout
		}
		timer.Reset(left)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
			return
		}
	}
}

// sameState compares states without what changes all the time.
func sameState(a, b State) bool {
	return a.Live == b.Live && a.Usable == b.Usable && a.Draining == b.Draining && a.Problem == b.Problem &&
		a.Hello.Version == b.Hello.Version && slices.Equal(a.Hello.Identities, b.Hello.Identities)
}

// giveUp ends the stream and fails every batch: the node counts as gone until there is a new stream. Their rows
// are returned by coordinator/fleet (Fleet.verifyPart), which gets the error. The caller holds mu.
func (c *Client) giveUp(reason string) {
	if c.state.Problem != "" {
		reason = c.state.Problem // which says why there is no stream
	}
	if c.state.Usable {
		c.cfg.Log.Warn("node dropped", "why", reason, "batches", len(c.batches))
	}
	c.state.Live, c.state.Usable, c.state.Problem = false, false, reason
	if c.stream != nil {
		c.stream.cancel()
		c.stream = nil
	}
	c.failBatches(reason)
	c.credit.rejectAll(c.unusable())
	c.wakeTableWaiters()
}

// failBatches fails the batches of a stream that has ended: the node forgets them. The caller holds mu.
func (c *Client) failBatches(reason string) {
	gone := fmt.Errorf("node %s: %s: %w", c.cfg.Node, reason, wire.ErrGone)
	for _, pb := range c.batches {
		pb.fail(gone)
	}
	clear(c.batches)
}

// unusable says why the node cannot be given work; nil where it can. The caller holds mu.
func (c *Client) unusable() error {
	switch {
	case c.state.Draining:
		return fmt.Errorf("node %s: it is stopping: %w", c.cfg.Node, wire.ErrGone)
	case !c.state.Usable:
		return fmt.Errorf("node %s: %s: %w", c.cfg.Node, c.state.Problem, wire.ErrGone)
	}
	return nil
}

// nodeError names the node in an error.
func (c *Client) nodeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", c.cfg.Node, err)
}
