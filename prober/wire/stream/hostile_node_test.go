package stream

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/frames"
	"probity/prober/wire/timing"
)

// hostileNode is a node with a good certificate that sends whatever a test says. It greets as it should, once, and
// refuses every later stream.
type hostileNode struct {
	frames.UnimplementedNodeServer
	attached atomic.Bool
	serve    func(grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame]) error
}

func (r *hostileNode) Attach(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame]) error {
	if r.attached.Swap(true) {
		return status.Error(codes.FailedPrecondition, "once is enough")
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	table := defaultTable.Hash()
	hello := &frames.NodeHelloFrame{Protocol: wire.Protocol, Version: "1.2.3", Node: "n1", Table: table[:],
		Total: defaultMaxRows, Window: defaultWindow}
	if err := stream.Send(&frames.NodeFrame{Kind: &frames.NodeFrame_Hello{Hello: hello}}); err != nil {
		return err
	}
	return r.serve(stream)
}

// attachToHostileNode attaches a client to a hostile node, within a bubble. The problems are those that the client
// reported, in order.
func attachToHostileNode(t *testing.T, serve func(grpc.BidiStreamingServer[frames.CoordinatorFrame,
	frames.NodeFrame]) error, with ...func(*ClientConfig)) (c *Client, problems func() []string) {
	listener := bufconn.Listen(1 << 16)
	g := grpc.NewServer(grpc.Creds(insecure.NewCredentials()), grpc.MaxSendMsgSize(maxMessage))
	frames.RegisterNodeServer(g, &hostileNode{serve: serve})
	go func() { _ = g.Serve(listener) }()
	var seen []string
	cfg := ClientConfig{Node: "n1", Version: "1.2.3", Coordinator: wire.Coordinator{ID: "c1", Term: 1},
		Table:       func() *engine.Table { return defaultTable },
		Dial:        func(ctx context.Context) (net.Conn, error) { return listener.DialContext(ctx) },
		Credentials: insecure.NewCredentials(), Changed: func(s State) { seen = append(seen, s.Problem) }}
	for _, option := range with {
		option(&cfg)
	}
	c, err := NewClient(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		require.NoError(t, c.Run(ctx))
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		g.Stop()
	})
	return c, func() []string {
		synctest.Wait()
		return seen
	}
}

func requireProblem(t *testing.T, problems []string, want string) {
	t.Helper()
	for _, p := range problems {
		if p != "" {
			require.Contains(t, p, want)
			return
		}
	}
	t.Fatalf("no problem was told: %q", problems)
}

// A node that talks and does not read makes the coordinator keep one answer: to its newest ping. Results of batches
// that are not under way are dropped.
func TestNodeThatDoesNotReadIsKeptOneAnswer(t *testing.T) {
	const messages = 100_000
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		c, problems := attachToHostileNode(t, func(stream grpc.BidiStreamingServer[frames.CoordinatorFrame,
			frames.NodeFrame]) error {
			for i := range uint64(messages) {
				for _, f := range []*frames.NodeFrame{
					{Kind: &frames.NodeFrame_Ping{Ping: &frames.PingFrame{Number: i}}},
					{Kind: &frames.NodeFrame_Results{Results: &frames.ResultsFrame{Batch: i % 9}}},
					{Kind: &frames.NodeFrame_Results{Results: &frames.ResultsFrame{Batch: 1000 + i, Done: true}}},
				} {
					if err := stream.Send(f); err != nil {
						return err
					}
					sent++
				}
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 3*messages, sent)
		c.mu.Lock()
		l := c.stream
		c.mu.Unlock()
		l.mu.Lock()
		waiting := len(l.queue)
		l.mu.Unlock()
		require.LessOrEqual(t, waiting, 1)
		require.Equal(t, []string{""}, problems(), "the stream lives")
	})
}

// A node that talks and does not read what does not fit into its window loses the stream, before batches whose time is
// over pile up.
func TestNodeThatDoesNotReadLosesTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Duration
		began := time.Now()
		c, problems := attachToHostileNode(t, func(stream grpc.BidiStreamingServer[frames.CoordinatorFrame,
			frames.NodeFrame]) error {
			for number := uint64(0); stream.Context().Err() == nil; number++ {
				if err := stream.Send(&frames.NodeFrame{
					Kind: &frames.NodeFrame_Ping{Ping: &frames.PingFrame{Number: number}},
				}); err != nil {
					break
				}
				select {
				case <-time.After(time.Second):
				case <-stream.Context().Done():
				}
			}
			ended = time.Since(began)
			return stream.Context().Err()
		})
		synctest.Wait()
		var batches sync.WaitGroup
		for n := range uint64(20) { // more than the windows of the connection hold
			batches.Go(func() {
				err := c.Verify(t.Context(), testBatch(n, fmt.Sprint("class", n), wire.MaxRows), time.Minute,
					func(wire.Results) {})
				require.Error(t, err)
			})
		}
		batches.Wait()
		requireProblem(t, problems(), "does not read")
		require.Less(t, ended, 2*timing.NodeTimeout)
	})
}

// Results bring rows that their batch waits for, in messages of their size, or cost the node its stream.
func TestResultsBeyondTheirBatchEndTheStream(t *testing.T) {
	many := make([]uint32, 1_000_000)
	for i := range many {
		many[i] = uint32(i)
	}
	row := func(r ...uint32) *frames.ResultsFrame {
		f := frames.NewResultsFrame(1, wire.Results{Rows: make([]wire.Result, len(r))})
		f.Row = r
		return f
	}
	long := row(1 << 16)
	long.Names = []string{"", string(make([]byte, 1<<20))}
	for reason, f := range map[string]*frames.ResultsFrame{
		"which the batch does not wait for": row(77),
		"results of row 65536":              row(1<<16, 1<<16),
		"results of row 0":                  {Batch: 1, Row: many},
		"results of 1 rows have 10":         long,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, problems := attachToHostileNode(t, func(stream grpc.BidiStreamingServer[frames.CoordinatorFrame,
				frames.NodeFrame]) error {
				for { // its batch
					got, err := stream.Recv()
					if err != nil {
						return err
					}
					if got.GetBatch() != nil {
						if err := stream.Send(&frames.NodeFrame{
							Kind: &frames.NodeFrame_Results{Results: f},
						}); err != nil {
							return err
						}
					}
				}
			})
			synctest.Wait()
			err := c.Verify(t.Context(), testBatch(1, "tail", 4), time.Minute, func(wire.Results) {})
			require.ErrorIs(t, err, wire.ErrGone)
			requireProblem(t, problems(), reason)
		})
	}
}

// A node that tells again and again how many rows wait for a budget makes us keep the newest message only.
func TestOnlyNewestBudgetWaitIsKept(t *testing.T) {
	pb := &pendingBatch{batch: testBatch(1, "tail", 1), wake: make(chan struct{}, 1)}
	for seq := range uint64(1000) {
		waits := wire.Results{BudgetWait: wire.BudgetWait{Rows: int(seq)}}
		require.NoError(t, pb.accept(frames.NewResultsFrame(1, waits)))
	}
	require.Len(t, pb.inbox, 1)
	part, err := pb.inbox[0].Read()
	require.NoError(t, err)
	require.Equal(t, 999, part.BudgetWait.Rows)
}
