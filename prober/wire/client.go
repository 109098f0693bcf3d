package wire

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
)

// ErrGone is returned for a node that cannot be used: it is not attached, it is stopping, or it was silent for NodeTimeout. Its
// work may be given to another node.
var ErrGone = errors.New("the node is gone")

// ClientConfig is what a Client is made of. Node, Coordinator, Table, Dial and Credentials are needed.
type ClientConfig struct {
	Node        string // the node that is meant
	Version     string // ours
	Coordinator Coordinator
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
	Hello     Hello     // of the last stream; zero where there was none
	LastHeard time.Time // when the node last said anything; zero for never
	Problem   string    // why there is no stream, for people
	Rows      int       // under way
}

// Client is a Prober at another node. It is usable while Run runs and has a stream.
type Client struct {
	cfg     ClientConfig
	session uint64
	wake    chan struct{} // wakes watch; holds one

	mu            sync.Mutex // guards what follows
	state         State
	stream        *clientStream // the live stream; nil for none
	single        NodeClient
	batches       map[uint64]*pendingBatch
	last          uint64 // number of the newest batch
	credit        credit
	protocol      uint32        // the protocol of the last stream
	table         [8]byte       // that the node works by, as far as it has said
	tableSwitched chan struct{} // closed, and replaced, when it takes work by another table or no more work at all

	status   Status
	statusAt time.Time
}

var _ Prober = (*Client)(nil)

// NewClient makes a Client. It starts nothing.
func NewClient(cfg ClientConfig) (*Client, error) {
	if cfg.Node == "" || cfg.Coordinator.ID == "" || cfg.Table == nil || cfg.Dial == nil || cfg.Credentials == nil {
		return nil, errors.New("wire: Node, Coordinator, Table, Dial and Credentials are needed")
	}
	if cfg.Changed == nil {
		cfg.Changed = func(State) {}
	}
	cfg.Log = orDiscard(cfg.Log).With("node", cfg.Node)
	return &Client{cfg: cfg, session: rand.Uint64(), tableSwitched: make(chan struct{}), wake: make(chan struct{}, 1), batches: map[uint64]*pendingBatch{}}, nil
}

// State is what is known now.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stateNow()
}

func (c *Client) stateNow() State {
	s := c.state
	s.Rows = c.credit.rows
	return s
}

// Run attaches to the node, again whenever the stream breaks, until ctx ends.
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
	c.single = NewNodeClient(single)
	c.mu.Unlock()

	var work sync.WaitGroup
	work.Go(func() { c.watch(ctx) })
	c.attachLoop(ctx, bulk)
	c.giveUp("we are stopping")
	work.Wait()
	return nil
}

// conn is a connection to the node; it dials when it is used. Single calls have one of their own, so that no batch delays them.
func (c *Client) conn() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+c.cfg.Node, grpc.WithTransportCredentials(c.cfg.Credentials),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.cfg.Dial(ctx) }),
		grpc.WithKeepaliveParams(clientKeepalive), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(windowSize), grpc.WithInitialConnWindowSize(windowSize),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", c.cfg.Node, err)
	}
	return conn, nil
}

// attachLoop makes one stream after another. Waits between tries double from minRetryWait to maxRetryWait, with jitter, so that
// a node that comes back does not get all connections at once. After a refusal it waits refusedRetryWait.
func (c *Client) attachLoop(ctx context.Context, conn *grpc.ClientConn) {
	wait := minRetryWait
	for ctx.Err() == nil {
		conn.ResetConnectBackoff()
		began := time.Now()
		err := c.attach(ctx, NewNodeClient(conn))
		if ctx.Err() != nil {
			return
		}
		c.recordProblem(err)
		switch {
		case refused(err):
			wait = refusedRetryWait
		case time.Since(began) > maxRetryWait:
			wait = minRetryWait
		default:
			wait = min(2*wait, maxRetryWait)
		}
		pause(ctx, wait/2+rand.N(wait/2))
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// refusedError is our own refusal of a node.
type refusedError struct{ reason string }

func (e refusedError) Error() string { return e.reason }

// refused reports that one side refused the other.
func refused(err error) bool {
	var own refusedError
	return errors.As(err, &own) || status.Code(err) == codes.FailedPrecondition
}

// recordProblem keeps why there is no stream, and logs it once.
func (c *Client) recordProblem(err error) {
	reason := "the stream ended"
	if err != nil {
		reason = status.Convert(err).Message()
	}
	c.mu.Lock()
	changed := c.state.Problem != reason
	c.state.Problem = reason
	c.mu.Unlock()
	if changed {
		c.cfg.Log.Warn("not attached to the node", "why", reason)
	}
	c.wakeWatch()
}

func (c *Client) wakeWatch() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// watch gives the node up when it has been silent for NodeTimeout, and reports each new State.
func (c *Client) watch(ctx context.Context) {
	var reported State
	timer := time.NewTimer(NodeTimeout)
	defer timer.Stop()
	for {
		state, next := c.applyTime(time.Now())
		if !sameState(reported, state) {
			reported = state
			c.cfg.Changed(state)
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
			return
		}
	}
}

// applyTime applies the passing of time, and says when to look again.
func (c *Client) applyTime(now time.Time) (State, time.Duration) {
	c.mu.Lock()
	left := c.state.LastHeard.Add(NodeTimeout).Sub(now)
	late := c.state.Usable && left <= 0
	c.mu.Unlock()
	if late {
		c.giveUp(fmt.Sprintf("silent for %v", NodeTimeout))
	}
	if left <= 0 {
		left = NodeTimeout
	}
	return c.State(), left
}

// sameState compares states without what changes all the time.
func sameState(a, b State) bool {
	return a.Live == b.Live && a.Usable == b.Usable && a.Draining == b.Draining && a.Problem == b.Problem &&
		a.Hello.Version == b.Hello.Version && slices.Equal(a.Hello.Identities, b.Hello.Identities)
}

// giveUp ends the stream and fails every batch: the node counts as gone until there is a new stream.
func (c *Client) giveUp(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUpLocked(reason)
}

func (c *Client) giveUpLocked(reason string) {
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
	for _, pending := range c.batches {
		pending.fail(fmt.Errorf("node %s: %s: %w", c.cfg.Node, reason, ErrGone))
	}
	clear(c.batches)
	c.credit.rejectAll(c.goneError())
	c.wakeTableWaiters()
}

func (c *Client) goneError() error {
	return fmt.Errorf("node %s: %s: %w", c.cfg.Node, c.state.Problem, ErrGone)
}
