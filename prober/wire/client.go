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

// ErrGone is returned for a node that cannot be used: it is not attached, it is stopping, or it was silent for
// Patience. What it was asked may be asked elsewhere.
var ErrGone = errors.New("the node is gone")

// ClientConfig is what a Client is made of. Node, Coordinator, Table, Dial and Credentials are needed.
type ClientConfig struct {
	Node        string // the node that is meant
	Version     string // ours
	Coordinator Coordinator
	Table       func() *engine.Table
	Dial        func(context.Context) (net.Conn, error)
	Credentials credentials.TransportCredentials // ClientTLS; insecure ones for connections within a process
	// Changed is told of each new State, from one goroutine.
	Changed func(State)
	Log     *slog.Logger // default: none
}

// State is what a Client knows of its node.
type State struct {
	Live     bool // the stream is there
	Usable   bool // it is, or was within Patience
	Draining bool
	Hello    Hello     // of the last stream; zero where there was none
	Heard    time.Time // when the node last said anything; zero for never
	Problem  string    // why there is no stream, in words
	Rows     int       // under way
}

// Client is a Prober that is elsewhere. It is usable while Run runs and has a stream.
type Client struct {
	cfg     ClientConfig
	session uint64
	news    chan struct{} // tells watch; holds one

	mu     sync.Mutex // guards what follows
	state  State
	stream *link // the live stream; nil for none
	single NodeClient
	calls  map[uint64]*call
	last   uint64 // number of the newest call
	credit credit
	speaks uint32        // the protocol of the last stream
	table  [8]byte       // that the node works by, as far as it has told
	turned chan struct{} // closed, and replaced, when it takes work by another table or no more work at all

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
	return &Client{cfg: cfg, session: rand.Uint64(), turned: make(chan struct{}), news: make(chan struct{}, 1), calls: map[uint64]*call{}}, nil
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
	c.attachAll(ctx, bulk)
	c.giveUp("we are stopping")
	work.Wait()
	return nil
}

// conn is a connection to the node; it dials when it is used. Singles have one of their own, so that no batch is before them.
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

// attachAll makes one stream after another. Waits between tries double from retryLeast to retryMost, with jitter, so that a
// node that comes back is not met by all at once; a refusal will not heal soon.
func (c *Client) attachAll(ctx context.Context, conn *grpc.ClientConn) {
	wait := retryLeast
	for ctx.Err() == nil {
		conn.ResetConnectBackoff()
		began := time.Now()
		err := c.attach(ctx, NewNodeClient(conn))
		if ctx.Err() != nil {
			return
		}
		c.note(err)
		switch {
		case refused(err):
			wait = retryRefused
		case time.Since(began) > retryMost:
			wait = retryLeast
		default:
			wait = min(2*wait, retryMost)
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
type refusedError struct{ words string }

func (e refusedError) Error() string { return e.words }

// refused reports that one side does not want the other.
func refused(err error) bool {
	var own refusedError
	return errors.As(err, &own) || status.Code(err) == codes.FailedPrecondition
}

// note keeps why there is no stream, and says it once.
func (c *Client) note(err error) {
	words := "the stream ended"
	if err != nil {
		words = status.Convert(err).Message()
	}
	c.mu.Lock()
	news := c.state.Problem != words
	c.state.Problem = words
	c.mu.Unlock()
	if news {
		c.cfg.Log.Warn("not attached to the node", "why", words)
	}
	c.tell()
}

func (c *Client) tell() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// watch gives the node up when it has been silent for Patience, and passes on what changes.
func (c *Client) watch(ctx context.Context) {
	var told State
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	for {
		state, next := c.look(time.Now())
		if !sameState(told, state) {
			told = state
			c.cfg.Changed(state)
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-c.news:
		case <-ctx.Done():
			return
		}
	}
}

// look applies the passing of time, and says when to look again.
func (c *Client) look(now time.Time) (State, time.Duration) {
	c.mu.Lock()
	left := c.state.Heard.Add(Patience).Sub(now)
	late := c.state.Usable && left <= 0
	c.mu.Unlock()
	if late {
		c.giveUp(fmt.Sprintf("silent for %v", Patience))
	}
	if left <= 0 {
		left = Patience
	}
	return c.State(), left
}

// sameState leaves out what changes all the time.
func sameState(a, b State) bool {
	return a.Live == b.Live && a.Usable == b.Usable && a.Draining == b.Draining && a.Problem == b.Problem &&
		a.Hello.Version == b.Hello.Version && slices.Equal(a.Hello.Identities, b.Hello.Identities)
}

// giveUp ends the stream and fails every call: from now on the node does not exist, until a new stream says otherwise.
func (c *Client) giveUp(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUpLocked(why)
}

func (c *Client) giveUpLocked(why string) {
	if c.state.Problem != "" {
		why = c.state.Problem // which says why there is no stream
	}
	if c.state.Usable {
		c.cfg.Log.Warn("gave the node up", "why", why, "batches", len(c.calls))
	}
	c.state.Live, c.state.Usable, c.state.Problem = false, false, why
	if c.stream != nil {
		c.stream.end()
		c.stream = nil
	}
	for _, call := range c.calls {
		call.fail(fmt.Errorf("node %s: %s: %w", c.cfg.Node, why, ErrGone))
	}
	clear(c.calls)
	c.credit.refuse(c.gone())
	c.tellTurned()
}

func (c *Client) gone() error {
	return fmt.Errorf("node %s: %s: %w", c.cfg.Node, c.state.Problem, ErrGone)
}
