package stream

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"probity/prober/wire"
	"probity/prober/wire/frames"
)

type rawStream = grpc.BidiStreamingClient[frames.CoordinatorFrame, frames.NodeFrame]

// rawCoordinator is a stream to the test node whose frames the test writes.
func rawCoordinator(t *testing.T, l *testNode,
	h *frames.CoordinatorHelloFrame) (rawStream, *frames.NodeHelloFrame, error) {
	conn, err := grpc.NewClient("passthrough:///n1", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return l.network.listener.DialContext(ctx)
		}))
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
func nextFrame(t *testing.T, stream grpc.BidiStreamingClient[frames.CoordinatorFrame,
	frames.NodeFrame]) *frames.NodeFrame {
	for {
		f, err := stream.Recv()
		require.NoError(t, err)
		switch {
		case f.GetPing() != nil:
			require.NoError(t, stream.Send(&frames.CoordinatorFrame{
				Kind: &frames.CoordinatorFrame_Pong{Pong: f.GetPing()},
			}))
		case f.GetCredit() == nil && f.GetStatus() == nil:
			return f
		}
	}
}

func sendBatch(t *testing.T, stream grpc.BidiStreamingClient[frames.CoordinatorFrame, frames.NodeFrame], number uint64,
	table []byte) {
	f := frames.NewBatchFrame(testBatch(number, "tail", 1), number, time.Minute)
	f.Table = table
	require.NoError(t, stream.Send(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Batch{Batch: f}}))
}

func TestPeersWithoutCommonProtocolRefuseEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTableTest(t, time.Millisecond, defaultTable)
		for _, h := range []*frames.CoordinatorHelloFrame{{},
			{Protocol: wire.Protocol + 1, ProtocolMost: wire.Protocol + 2}} {
			_, _, err := rawCoordinator(t, l.testNode, h)
			require.ErrorContains(t, err, "update the older of the two")
		}
	})
}
