package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"probity/engine"
	"probity/prober/wire"
)

// defaultTable is the table that both sides have in these tests.
var defaultTable = engine.DefaultTable()

// flakyNetwork is the network between one coordinator and one node: it can stop carrying in either direction, as a
// cut-off machine does (neither side is told), or drop every connection at once.
type flakyNetwork struct {
	listener *bufconn.Listener

	mu      sync.Mutex
	blocked [2]chan struct{} // by direction; closed when it carries again, nil when it carries
	conns   []net.Conn
}

// The directions.
const (
	toNode   = 0 // coordinator to node
	fromNode = 1
)

func newFlakyNetwork() *flakyNetwork { return &flakyNetwork{listener: bufconn.Listen(1 << 20)} }

func (c *flakyNetwork) dial(ctx context.Context) (net.Conn, error) {
	if !c.waitOpen(ctx.Done(), toNode) || !c.waitOpen(ctx.Done(), fromNode) {
		return nil, errors.New("i/o timeout")
	}
	conn, err := c.listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	flaky := &flakyConn{Conn: conn, network: c, closed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, flaky)
	return flaky, nil
}

// waitOpen waits until the direction does; false where gone comes first.
func (c *flakyNetwork) waitOpen(gone <-chan struct{}, direction int) bool {
	for {
		c.mu.Lock()
		blocked := c.blocked[direction]
		c.mu.Unlock()
		if blocked == nil {
			return true
		}
		select {
		case <-blocked:
		case <-gone:
			return false
		}
	}
}

func (c *flakyNetwork) block(directions ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range directions {
		if c.blocked[w] == nil {
			c.blocked[w] = make(chan struct{})
		}
	}
}

func (c *flakyNetwork) unblock() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w, blocked := range c.blocked {
		if blocked != nil {
			close(blocked)
			c.blocked[w] = nil
		}
	}
}

func (c *flakyNetwork) closeConns() {
	c.mu.Lock()
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// flakyConn is the coordinator's end of a connection.
type flakyConn struct {
	net.Conn
	network *flakyNetwork
	once    sync.Once
	closed  chan struct{}
}

func (c *flakyConn) Write(b []byte) (int, error) {
	if !c.network.waitOpen(c.closed, toNode) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *flakyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.network.waitOpen(c.closed, fromNode) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *flakyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// slowProber is a prober that settles one row of each batch after another, every pace.
type slowProber struct {
	interval time.Duration

	mu          sync.Mutex
	probedAt    []time.Time // of each probe
	rows        map[uint32]int
	batches     int // batches
	underWay    map[string]int
	maxUnderWay map[string]int // rows of a class under way at one time
	single      atomic.Pointer[func(context.Context, wire.SingleRequest) (wire.Answer, error)]
}

func newSlowProber(interval time.Duration) *slowProber {
	return &slowProber{interval: interval, rows: map[uint32]int{}, underWay: map[string]int{},
		maxUnderWay: map[string]int{}}
}

func (p *slowProber) countRows(b *wire.Batch, rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay[b.Class] += rows
	p.maxUnderWay[b.Class] = max(p.maxUnderWay[b.Class], p.underWay[b.Class])
	if rows > 0 {
		p.batches++
	}
}

func (p *slowProber) Verify(ctx context.Context, b *wire.Batch, hold time.Duration, send func(wire.Results)) error {
	p.countRows(b, len(b.Rows))
	// A batch is over with its last results: the next one may begin before this call has returned.
	emit := func(part wire.Results) {
		if part.Done {
			p.countRows(b, -len(b.Rows))
		}
		send(part)
	}
	end := time.NewTimer(hold)
	defer end.Stop()
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	left := allRows(b)
	for i := range b.Rows {
		select {
		case <-tick.C:
		case <-ctx.Done():
			emit(returnedResults(b, left))
			return nil
		case <-end.C:
			emit(returnedResults(b, left))
			return nil
		}
		row := &b.Rows[i]
		p.probe(row)
		left[i] = false
		v := engine.VerdictFor(engine.ReasonMailboxNotFound, "test", row.Flags, time.Now())
		emit(wire.Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch,
			Rows: []wire.Result{{Row: row.Number, Egress: "a", Verdict: v}}, Done: i == len(b.Rows)-1})
	}
	return nil
}

func (p *slowProber) probe(row *wire.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probedAt = append(p.probedAt, time.Now())
	p.rows[row.Number]++
}

func (p *slowProber) Single(ctx context.Context, sr wire.SingleRequest) (wire.Answer, error) {
	if single := p.single.Load(); single != nil {
		return (*single)(ctx, sr)
	}
	return wire.Answer{Verdict: engine.VerdictFor(engine.ReasonMailboxNotFound, "test", sr.Flags, time.Now()),
		Node: "n1"}, nil
}

// lockedBuffer is a log that is read while the node goes on writing to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// testNode is one node and its coordinator on a flaky network, in a bubble.
type testNode struct {
	t          *testing.T
	network    *flakyNetwork
	prober     *slowProber
	server     *Server
	client     *Client
	log        *lockedBuffer // the node's
	stop       func()        // of the node
	done       chan struct{} // when the node's Run has returned
	background sync.WaitGroup

	mu             sync.Mutex
	isolations     []time.Time // when the node lost the lease
	leasesRegained []time.Time // and got it
	states         []State
	givenUpAt      []time.Time // when the coordinator gave the node up
}

type testOptions struct {
	server func(*ServerConfig)
	client func(*ClientConfig)
}

func newTestNode(t *testing.T, interval time.Duration, with testOptions) *testNode {
	l := &testNode{t: t, network: newFlakyNetwork(), prober: newSlowProber(interval), log: &lockedBuffer{},
		done: make(chan struct{})}
	cfg := ServerConfig{Node: "n1", Version: "1.2.3", Table: defaultTable, Prober: l.prober,
		Identities:  []wire.Identity{{Name: "192.0.2.1", Local: "10.0.0.1", Public: "192.0.2.1", EHLO: "a.example"}},
		Credentials: insecure.NewCredentials(), SetIsolated: l.recordIsolated,
		Log: slog.New(slog.NewTextHandler(l.log, nil))}
	if with.server != nil {
		with.server(&cfg)
	}
	var err error
	l.server, err = NewServer(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	go func() {
		defer close(l.done)
		_ = l.server.Run(ctx, l.network.listener)
	}()
	l.client = l.newClient(wire.Coordinator{ID: "c1", Term: 1}, l.recordState, with.client)
	t.Cleanup(func() {
		l.background.Wait()
		l.network.unblock()
		stop()
		<-l.done
	})
	return l
}

// newClient runs another client.
func (l *testNode) newClient(coordinator wire.Coordinator, changed func(State), with func(*ClientConfig)) *Client {
	cfg := ClientConfig{Node: "n1", Version: "1.2.3", Coordinator: coordinator,
		Table: func() *engine.Table { return defaultTable },
		Dial:  l.network.dial, Credentials: insecure.NewCredentials(), Changed: changed}
	if with != nil {
		with(&cfg)
	}
	c, err := NewClient(cfg)
	require.NoError(l.t, err)
	ctx, stop := context.WithCancel(l.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		require.NoError(l.t, c.Run(ctx))
	}()
	l.t.Cleanup(func() { stop(); <-ended })
	return c
}

func (l *testNode) recordIsolated(isolated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isolated {
		l.isolations = append(l.isolations, time.Now())
	} else {
		l.leasesRegained = append(l.leasesRegained, time.Now())
	}
}

func (l *testNode) recordState(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.states); n > 0 && l.states[n-1].Usable && !s.Usable {
		l.givenUpAt = append(l.givenUpAt, time.Now())
	}
	l.states = append(l.states, s)
}

// inBackground runs f in the background.
func (l *testNode) inBackground(f func()) { l.background.Go(f) }

// waitIdle waits until nothing moves without the clock.
func (l *testNode) waitIdle() *testNode {
	synctest.Wait()
	return l
}

func testBatch(chunk uint64, class string, rows int) *wire.Batch {
	r := defaultTable.NewRoute([]engine.MX{{Preference: 1, Host: "mx.example.com"}})
	b := &wire.Batch{Job: "j", Chunk: chunk, Epoch: 2, Class: class}
	for i := range rows {
		a, err := engine.Parse(fmt.Sprintf("u%d@example.com", i))
		if err != nil {
			panic(err)
		}
		b.Rows = append(b.Rows, wire.Row{Number: uint32(chunk)<<16 | uint32(i), Address: a, Route: &r})
	}
	return b
}

// batchOutcome is how a batch ended.
type batchOutcome struct {
	rows      map[uint32]int // number -> results
	returned  int
	doneCount int
	err       error
	duration  time.Duration
}

func (l *testNode) verify(ctx context.Context, b *wire.Batch, hold time.Duration) *batchOutcome {
	o := &batchOutcome{rows: map[uint32]int{}}
	began := time.Now()
	o.err = l.client.Verify(ctx, b, hold, func(r wire.Results) {
		require.Equal(l.t, []any{b.Job, b.Chunk, b.Epoch}, []any{r.Job, r.Chunk, r.Epoch})
		for _, row := range r.Rows {
			o.rows[row.Row]++
			if row.Outcome == wire.Returned {
				o.returned++
			}
		}
		if r.Done {
			o.doneCount++
		}
	})
	o.duration = time.Since(began)
	return o
}

// requireComplete demands one result for each row and one Done.
func (o *batchOutcome) requireComplete(t *testing.T, b *wire.Batch) {
	t.Helper()
	require.NoError(t, o.err)
	require.Equal(t, 1, o.doneCount)
	require.Len(t, o.rows, len(b.Rows))
	for row, n := range o.rows {
		require.Equal(t, 1, n, "row %d", row)
	}
}
