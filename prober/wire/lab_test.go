package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"probity/engine"
)

// cable is the network between one coordinator and one node: it can stop carrying in either direction, as a cut-off machine
// does (nobody is told), or drop every connection at once.
type cable struct {
	listener *bufconn.Listener

	mu    sync.Mutex
	holes [2]chan struct{} // by direction; closed when it carries again, nil when it carries
	conns []net.Conn
}

// The directions.
const (
	out  = 0 // coordinator to node
	back = 1
)

func newCable() *cable { return &cable{listener: bufconn.Listen(1 << 20)} }

func (c *cable) dial(ctx context.Context) (net.Conn, error) {
	if !c.carries(ctx.Done(), out) || !c.carries(ctx.Done(), back) {
		return nil, errors.New("i/o timeout")
	}
	conn, err := c.listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	wrapped := &cabled{Conn: conn, cable: c, gone: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, wrapped)
	return wrapped, nil
}

// carries waits until the direction does; false where gone comes first.
func (c *cable) carries(gone <-chan struct{}, way int) bool {
	for {
		c.mu.Lock()
		hole := c.holes[way]
		c.mu.Unlock()
		if hole == nil {
			return true
		}
		select {
		case <-hole:
		case <-gone:
			return false
		}
	}
}

func (c *cable) cut(ways ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range ways {
		if c.holes[w] == nil {
			c.holes[w] = make(chan struct{})
		}
	}
}

func (c *cable) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w, hole := range c.holes {
		if hole != nil {
			close(hole)
			c.holes[w] = nil
		}
	}
}

func (c *cable) sever() {
	c.mu.Lock()
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// cabled is the coordinator's end of a connection.
type cabled struct {
	net.Conn
	cable *cable
	once  sync.Once
	gone  chan struct{}
}

func (c *cabled) Write(b []byte) (int, error) {
	if !c.cable.carries(c.gone, out) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *cabled) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.cable.carries(c.gone, back) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *cabled) Close() error {
	c.once.Do(func() { close(c.gone) })
	return c.Conn.Close()
}

// slow is a prober that settles one row of each batch after another, every pace.
type slow struct {
	pace time.Duration

	mu     sync.Mutex
	begun  []time.Time // of each probe
	rows   map[uint32]int
	taken  int // batches
	inside map[string]int
	most   map[string]int // rows of a class under way at one time
	single atomic.Pointer[func(context.Context, Ask) (Answer, error)]
}

func newSlow(pace time.Duration) *slow {
	return &slow{pace: pace, rows: map[uint32]int{}, inside: map[string]int{}, most: map[string]int{}}
}

func (p *slow) enter(b *Batch, rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inside[b.Class] += rows
	p.most[b.Class] = max(p.most[b.Class], p.inside[b.Class])
	if rows > 0 {
		p.taken++
	}
}

func (p *slow) Verify(ctx context.Context, b *Batch, hold time.Duration, send func(Results)) error {
	p.enter(b, len(b.Rows))
	// A batch is over with its last results: the next one may begin before this call has returned.
	emit := func(part Results) {
		if part.Done {
			p.enter(b, -len(b.Rows))
		}
		send(part)
	}
	end := time.NewTimer(hold)
	defer end.Stop()
	tick := time.NewTicker(p.pace)
	defer tick.Stop()
	left := allRows(b)
	for i := range b.Rows {
		select {
		case <-tick.C:
		case <-ctx.Done():
			emit(laterAll(b, left))
			return nil
		case <-end.C:
			emit(laterAll(b, left))
			return nil
		}
		row := &b.Rows[i]
		p.probe(row)
		delete(left, row.Number)
		v := engine.Sure(engine.ReasonMailboxNotFound, "test", row.Flags, time.Now())
		emit(Results{Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Rows: []Result{{Row: row.Number, Egress: "a", Verdict: v}}, Done: i == len(b.Rows)-1})
	}
	return nil
}

func (p *slow) probe(row *Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = append(p.begun, time.Now())
	p.rows[row.Number]++
}

func (p *slow) Single(ctx context.Context, a Ask) (Answer, error) {
	if single := p.single.Load(); single != nil {
		return (*single)(ctx, a)
	}
	return Answer{Verdict: engine.Sure(engine.ReasonMailboxNotFound, "test", a.Flags, time.Now()), Node: "n1"}, nil
}

// lab is one node and its coordinator on a cable, in a bubble.
type lab struct {
	t      *testing.T
	cable  *cable
	prober *slow
	server *Server
	client *Client
	log    *bytes.Buffer // the node's
	stop   func()        // of the node
	ended  chan struct{} // when the node's Run has returned
	aside  sync.WaitGroup

	mu     sync.Mutex
	alone  []time.Time // when the node lost the lease
	again  []time.Time // and got it
	states []State
	lost   []time.Time // when the coordinator gave the node up
}

type change struct {
	server func(*ServerConfig)
	client func(*ClientConfig)
}

func newLab(t *testing.T, pace time.Duration, with change) *lab {
	l := &lab{t: t, cable: newCable(), prober: newSlow(pace), log: &bytes.Buffer{}, ended: make(chan struct{})}
	cfg := ServerConfig{Node: "n1", Version: "1.2.3", Table: func() *engine.Table { return shipped }, Prober: l.prober,
		Identities:  []Identity{{Name: "192.0.2.1", Local: "10.0.0.1", Public: "192.0.2.1", EHLO: "a.example"}},
		Credentials: insecure.NewCredentials(), Alone: l.noteAlone, Log: slog.New(slog.NewTextHandler(l.log, nil))}
	if with.server != nil {
		with.server(&cfg)
	}
	var err error
	l.server, err = NewServer(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	l.stop = stop
	go func() {
		defer close(l.ended)
		_ = l.server.Run(ctx, l.cable.listener)
	}()
	l.client = l.join(Coordinator{"c1", 1}, l.noteState, with.client)
	t.Cleanup(func() {
		l.aside.Wait()
		l.cable.heal()
		stop()
		<-l.ended
	})
	return l
}

// join runs a client of its own.
func (l *lab) join(who Coordinator, changed func(State), with func(*ClientConfig)) *Client {
	cfg := ClientConfig{Node: "n1", Version: "1.2.3", Coordinator: who, Table: func() *engine.Table { return shipped },
		Dial: l.cable.dial, Credentials: insecure.NewCredentials(), Changed: changed}
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

func (l *lab) noteAlone(alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if alone {
		l.alone = append(l.alone, time.Now())
	} else {
		l.again = append(l.again, time.Now())
	}
}

func (l *lab) noteState(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.states); n > 0 && l.states[n-1].Usable && !s.Usable {
		l.lost = append(l.lost, time.Now())
	}
	l.states = append(l.states, s)
}

// beside runs f while the test goes on.
func (l *lab) beside(f func()) { l.aside.Go(f) }

// settle waits until nothing moves without the clock.
func (l *lab) settle() *lab {
	synctest.Wait()
	return l
}

func testBatch(chunk uint64, class string, rows int) *Batch {
	r := shipped.NewRoute([]engine.MX{{Preference: 1, Host: "mx.example.com"}})
	b := &Batch{Job: "j", Chunk: chunk, Epoch: 2, Class: class}
	for i := range rows {
		a, err := engine.Parse(fmt.Sprintf("u%d@example.com", i))
		if err != nil {
			panic(err)
		}
		b.Rows = append(b.Rows, Row{Number: uint32(chunk)<<16 | uint32(i), Address: a, Route: &r})
	}
	return b
}

// outcome is how a batch ended.
type outcome struct {
	rows  map[uint32]int // number -> results
	later int
	dones int
	err   error
	took  time.Duration
}

func (l *lab) verify(ctx context.Context, b *Batch, hold time.Duration) *outcome {
	o := &outcome{rows: map[uint32]int{}}
	began := time.Now()
	o.err = l.client.Verify(ctx, b, hold, func(r Results) {
		require.Equal(l.t, []any{b.Job, b.Chunk, b.Epoch}, []any{r.Job, r.Chunk, r.Epoch})
		for _, row := range r.Rows {
			o.rows[row.Row]++
			if row.Outcome == Later {
				o.later++
			}
		}
		if r.Done {
			o.dones++
		}
	})
	o.took = time.Since(began)
	return o
}

// complete demands one result for each row and one Done.
func (o *outcome) complete(t *testing.T, b *Batch) {
	t.Helper()
	require.NoError(t, o.err)
	require.Equal(t, 1, o.dones)
	require.Len(t, o.rows, len(b.Rows))
	for row, n := range o.rows {
		require.Equal(t, 1, n, "row %d", row)
	}
}
