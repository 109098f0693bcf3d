package stream

import (
	"context"
	"net"
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

// rawCoordinator is a stream to the test node whose frames the test writes.
func rawCoordinator(t *testing.T, l *testNode, h *frames.CoordinatorHelloFrame) (grpc.BidiStreamingClient[frames.CoordinatorFrame, frames.NodeFrame], *frames.NodeHelloFrame, error) {
	conn, err := grpc.NewClient("passthrough:///n1", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.network.listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	stream, err := frames.NewNodeClient(conn).Attach(t.Context())
	require.NoError(t, err)
	h.Coordinator, h.Node = &frames.CoordinatorIDFrame{Id: "c1", Term: 9}, "n1"
	require.NoError(t, stream.Send(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Hello{Hello: h}}))
	first, err := stream.Recv()
	return stream, first.GetHello(), err
}

// next is the next frame that is of interest; pings are answered.
func nextFrame(t *testing.T, stream grpc.BidiStreamingClient[frames.CoordinatorFrame, frames.NodeFrame]) *frames.NodeFrame {
	for {
		f, err := stream.Recv()
		require.NoError(t, err)
		switch {
		case f.GetPing() != nil:
			require.NoError(t, stream.Send(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Pong{Pong: f.GetPing()}}))
		case f.GetCredit() == nil && f.GetStatus() == nil:
			return f
		}
	}
}

func sendBatch(t *testing.T, stream grpc.BidiStreamingClient[frames.CoordinatorFrame, frames.NodeFrame], number uint64, table []byte) {
	f := frames.NewBatchFrame(testBatch(number, "tail", 1), number, time.Minute, func(*wire.Row) bool { return true })
	f.Table = table
	require.NoError(t, stream.Send(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Batch{Batch: f}}))
}

// An old coordinator knows neither ranges nor tables that are sent: it is spoken to as before.
func TestOldCoordinatorIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := otherTable(t)
		l := newTableTest(t, time.Millisecond, own) // which works by the shipped table now, as a new coordinator said
		_, _, err := rawCoordinator(t, l.testNode, &frames.CoordinatorHelloFrame{Protocol: 2, Table: []byte("anything")})
		require.ErrorContains(t, err, "give both one version and one --providers file")

		hash := own.Hash()
		stream, hello, err := rawCoordinator(t, l.testNode, &frames.CoordinatorHelloFrame{Protocol: 2, Table: hash[:]})
		require.NoError(t, err)
		require.EqualValues(t, 2, hello.GetProtocol(), "what it compares with its own")
		require.Equal(t, hash[:], hello.GetTable())
		used, _ := l.tablesUsed()
		require.Equal(t, [][8]byte{defaultTable.Hash(), hash}, used, "the node goes back to its own table, which the coordinator has too")
		sendBatch(t, stream, 1, nil)
		require.EqualValues(t, []byte{byte(wire.Settled)}, nextFrame(t, stream).GetResults().GetOutcome())

		require.True(t, l.server.TableChanged())
		for err == nil {
			_, err = stream.Recv()
		}
		require.ErrorContains(t, err, "another provider table", "its next hello compares the tables again")
	})
}

func TestPeersWithoutCommonProtocolRefuseEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTableTest(t, time.Millisecond, defaultTable)
		hash := defaultTable.Hash()
		for _, h := range []*frames.CoordinatorHelloFrame{{Protocol: 1}, {Protocol: wire.Protocol + 1, ProtocolMost: wire.Protocol + 2}} {
			h.Table = hash[:]
			_, _, err := rawCoordinator(t, l.testNode, h)
			require.ErrorContains(t, err, "update the older of the two")
		}
	})
}

// oldNode is a node of protocol 2, in frames: it refuses another protocol or another table, and never saw a table frame.
type oldNode struct {
	frames.UnimplementedNodeServer
	table   atomic.Pointer[engine.Table]
	refused atomic.Int32
	frames  chan *frames.CoordinatorFrame
}

func (n *oldNode) Attach(stream grpc.BidiStreamingServer[frames.CoordinatorFrame, frames.NodeFrame]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	hash := n.table.Load().Hash()
	if h := first.GetHello(); h.GetProtocol() != 2 || string(h.GetTable()) != string(hash[:]) {
		n.refused.Add(1)
		return status.Error(codes.FailedPrecondition, "install one version on all machines")
	}
	hello := &frames.NodeHelloFrame{Protocol: 2, Version: "0.9", Node: "n1", Table: hash[:], Total: defaultMaxRows, Window: defaultWindow}
	if err := stream.Send(&frames.NodeFrame{Kind: &frames.NodeFrame_Hello{Hello: hello}}); err != nil {
		return err
	}
	rows := map[uint64]*frames.BatchFrame{}
	for {
		f, err := stream.Recv()
		if err != nil {
			return err
		}
		n.frames <- f
		if b := f.GetBatch(); b != nil {
			rows[b.GetBatch()] = b
		}
		if k := f.GetCancel(); k != nil {
			b := rows[k.GetBatch()].Returnable()
			results := frames.NewResultsFrame(k.GetBatch(), returnedResults(b, allRows(b)))
			results.Seq = 1
			if err := stream.Send(&frames.NodeFrame{Kind: &frames.NodeFrame_Results{Results: results}}); err != nil {
				return err
			}
		}
	}
}

// A new coordinator has an old node work, takes its batches back when its own table changes, and has it back when the node has that
// table too.
func TestOldNodeIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &oldNode{frames: make(chan *frames.CoordinatorFrame, 100)}
		n.table.Store(defaultTable)
		listener := bufconn.Listen(1 << 16)
		g := grpc.NewServer(grpc.Creds(insecure.NewCredentials()))
		frames.RegisterNodeServer(g, n)
		go func() { _ = g.Serve(listener) }()
		defer g.Stop()
		var table atomic.Pointer[engine.Table]
		table.Store(defaultTable)
		l := &testNode{t: t, network: &flakyNetwork{listener: listener}}
		c := l.newClient(wire.Coordinator{ID: "c1", Term: 1}, ignoreState, func(c *ClientConfig) { c.Table = table.Load })
		l.client = c
		synctest.Wait()
		require.True(t, c.State().Usable, c.State().Problem)

		b := testBatch(1, "tail", 3)
		l.inBackground(func() {
			o := l.verify(t.Context(), b, time.Minute)
			o.requireComplete(t, b)
			require.Equal(t, 3, o.returned)
		})
		synctest.Wait()
		require.Empty(t, (<-n.frames).GetBatch().GetTable())
		next := otherTable(t)
		table.Store(next)
		c.TableChanged()
		l.background.Wait()
		require.EqualValues(t, 1, (<-n.frames).GetCancel().GetBatch())
		time.Sleep(timing.NodeTimeout + refusedRetryWait)
		require.Positive(t, n.refused.Load())
		require.False(t, c.State().Usable)
		n.table.Store(next)
		time.Sleep(refusedRetryWait)
		require.True(t, c.State().Usable, c.State().Problem)
		for len(n.frames) > 0 {
			require.Nil(t, (<-n.frames).GetTable(), "it would not know what that is")
		}
	})
}
