package stream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/frames"
)

func otherTable(t *testing.T) *engine.Table {
	other, err := defaultTable.Override([]byte("retry_schedule = [\"2m\"]"))
	require.NoError(t, err)
	return other
}

// batchOfTable is a batch whose routes are of a table.
func batchOfTable(table *engine.Table, chunk uint64, rows int) *wire.Batch {
	b := testBatch(chunk, "tail", rows)
	r := table.NewRoute([]engine.MX{{Preference: 1, Host: "mx.example.com"}})
	for i := range b.Rows {
		b.Rows[i].Route = &r
	}
	return b
}

// tableTest is a testNode whose coordinator can change its table.
type tableTest struct {
	*testNode
	table    atomic.Pointer[engine.Table]
	node     atomic.Pointer[Server]
	useError atomic.Pointer[error] // what the node says of a table

	mu       sync.Mutex // guards what follows
	used     []*engine.Table
	underWay int // rows under way whose results counted, at the last of those
}

func newTableTest(t *testing.T, interval time.Duration, own *engine.Table) *tableTest {
	l := &tableTest{}
	l.table.Store(defaultTable)
	l.testNode = newTestNode(t, interval, testOptions{
		server: func(c *ServerConfig) {
			c.Table = own
			c.UseTable = func(table *engine.Table) error {
				underWay := 0
				if s := l.node.Load(); s != nil {
					s.mu.Lock()
					underWay = s.rows
					s.mu.Unlock()
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				l.used, l.underWay = append(l.used, table), underWay
				if useError := l.useError.Load(); useError != nil {
					return *useError
				}
				return nil
			}
		},
		client: func(c *ClientConfig) { c.Table = l.table.Load }})
	l.node.Store(l.server)
	l.waitIdle()
	return l
}

// tablesUsed are the hashes of the tables that the node was told to use, and how many rows were under way at the last
// of them.
func (l *tableTest) tablesUsed() (hashes [][8]byte, underWay int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, table := range l.used {
		hashes = append(hashes, table.Hash())
	}
	return hashes, l.underWay
}

func (l *tableTest) setTable(to *engine.Table) {
	l.table.Store(to)
	l.client.TableChanged()
	l.waitIdle()
}

func TestNodeTakesTheCoordinatorsTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTableTest(t, time.Millisecond, otherTable(t))
		require.True(t, l.client.State().Usable, l.client.State().Problem)
		used, _ := l.tablesUsed()
		require.Equal(t, [][8]byte{defaultTable.Hash()}, used)
		b := testBatch(1, "tail", 10)
		o := l.verify(t.Context(), b, time.Minute)
		o.requireComplete(t, b)
		require.Zero(t, o.returned)
		_, err := l.client.Single(t.Context(), testRequest())
		require.NoError(t, err)
		l.network.closeConns()
		time.Sleep(5 * time.Second)
		require.True(t, l.client.State().Live)
		used, _ = l.tablesUsed()
		require.Len(t, used, 1, "it is not sent again to a node that has it")
	})
}

// A batch that is under way when the table changes is returned: what was answered was by the old table, the rest is
// asked by the new.
func TestBatchIsJudgedByOneTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTableTest(t, time.Second, defaultTable), otherTable(t)
		old := testBatch(1, "tail", 100)
		l.inBackground(func() {
			o := l.verify(t.Context(), old, time.Minute)
			o.requireComplete(t, old)
			require.Equal(t, 90, o.returned)
			require.Equal(t, 10500*time.Millisecond, o.duration)
		})
		time.Sleep(10*time.Second + 500*time.Millisecond)
		l.setTable(next)
		used, underWay := l.tablesUsed()
		require.Zero(t, underWay, "nothing was under way when it changed")
		require.Equal(t, [][8]byte{next.Hash()}, used)
		require.True(t, l.client.State().Usable, "the node keeps its share")

		stale := testBatch(2, "tail", 5)
		o := l.verify(t.Context(), stale, time.Minute)
		o.requireComplete(t, stale)
		require.Equal(t, 5, o.returned, "its routes are of a table that has gone")
		require.Zero(t, o.duration)
		fresh := batchOfTable(next, 3, 5)
		o = l.verify(t.Context(), fresh, time.Minute)
		o.requireComplete(t, fresh)
		require.Zero(t, o.returned)
	})
}

// The same while the stream is broken: its batch has ended with it.
func TestTableChangesWhileTheStreamIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTableTest(t, time.Second, defaultTable), otherTable(t)
		l.inBackground(func() {
			require.ErrorIs(t, l.verify(t.Context(), testBatch(1, "tail", 100), time.Minute).err, wire.ErrGone)
		})
		time.Sleep(5*time.Second + 500*time.Millisecond)
		l.network.closeConns()
		l.setTable(next)
		time.Sleep(3 * time.Second)
		require.True(t, l.client.State().Live, l.client.State().Problem)
		used, _ := l.tablesUsed()
		require.Equal(t, [][8]byte{next.Hash()}, used)
		fresh := batchOfTable(next, 2, 2)
		o := l.verify(t.Context(), fresh, time.Minute)
		o.requireComplete(t, fresh)
		require.Zero(t, o.returned)
	})
}

func TestTableChangesBackBeforeTheNodeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTableTest(t, time.Second, defaultTable), otherTable(t)
		l.network.block(fromNode)
		l.setTable(next)
		l.setTable(defaultTable)
		l.network.unblock()
		time.Sleep(time.Second)
		used, _ := l.tablesUsed()
		require.Equal(t, [][8]byte{next.Hash(), defaultTable.Hash()}, used)
		b := testBatch(1, "tail", 2)
		o := l.verify(t.Context(), b, time.Minute)
		o.requireComplete(t, b)
		require.Zero(t, o.returned)
	})
}

// A single call waits for the node's table, and fails if its route is of a table that is no longer ours.
func TestSingleIsJudgedByOneTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTableTest(t, time.Second, defaultTable), otherTable(t)
		asked, answer := make(chan struct{}), make(chan struct{})
		slow := func(_ context.Context, _ wire.SingleRequest) (wire.Answer, error) {
			close(asked)
			<-answer
			return wire.Answer{}, nil
		}
		l.prober.single.Store(&slow)
		l.inBackground(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := l.client.Single(ctx, testRequest())
			require.ErrorIs(t, err, wire.ErrOtherTable, "the table changed while it was asked")
		})
		<-asked
		old := testBatch(1, "tail", 100)
		l.inBackground(func() { l.verify(t.Context(), old, time.Minute) })
		l.waitIdle()
		l.setTable(next)
		l.prober.single.Store(nil)
		close(answer)
		l.background.Wait()
		_, err := l.client.Single(t.Context(), testRequest())
		require.ErrorIs(t, err, wire.ErrOtherTable)
		request := testRequest()
		request.Route = batchOfTable(next, 1, 1).Rows[0].Route
		_, err = l.client.Single(t.Context(), request)
		require.NoError(t, err)
	})
}

// A node that cannot work by the coordinator's table says why, on both sides, and takes no work.
func TestNodeThatCannotTakeTheTableTakesNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTableTest(t, time.Second, defaultTable), otherTable(t)
		useError := errors.New("the terms of receivers are not respected")
		l.useError.Store(&useError)
		l.setTable(next)
		for range 20 {
			time.Sleep(5 * time.Second)
			state := l.client.State()
			require.False(t, state.Live)
			require.False(t, state.Usable)
			require.Contains(t, state.Problem, "the terms of receivers are not respected")
		}
		require.Contains(t, l.waitIdle().log.String(), "cannot be used; taking no work")
		require.ErrorIs(t, l.verify(t.Context(), batchOfTable(next, 1, 1), time.Minute).err, wire.ErrGone)
		l.testNode.mu.Lock()
		lost := len(l.givenUpAt)
		l.testNode.mu.Unlock()
		require.Equal(t, 1, lost, "it does not come and go")
		l.useError.Store(nil)
		time.Sleep(refusedRetryWait)
		require.True(t, l.client.State().Usable)
	})
}

// A table that only a newer engine understands, or that was damaged, is reported as a problem; batches of it are
// returned.
func TestUnparsableTableIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTableTest(t, time.Millisecond, defaultTable)
		mine := defaultTable.Hash()
		stream, hello, err := rawCoordinator(t, l.testNode,
			&frames.CoordinatorHelloFrame{Protocol: wire.Protocol, ProtocolMost: wire.Protocol + 1})
		require.NoError(t, err)
		require.Equal(t, mine[:], hello.GetTable())
		for reason, layers := range map[string][][]byte{
			"its hash is another": append(defaultTable.Layers(), []byte("[newer]")),
			"0 layers":            nil,
		} {
			sent := &frames.TableFrame{Hash: []byte("newtable"), Layers: layers}
			require.NoError(t, stream.Send(&frames.CoordinatorFrame{Kind: &frames.CoordinatorFrame_Table{Table: sent}}))
			taken := nextFrame(t, stream).GetTable()
			require.Contains(t, taken.GetProblem(), reason)
			require.Equal(t, "newtable", string(taken.GetHash()))
		}
		used, _ := l.tablesUsed()
		require.Empty(t, used)
		sendBatch(t, stream, 1, []byte("newtable"))
		require.EqualValues(t, []byte{byte(wire.Returned)}, nextFrame(t, stream).GetResults().GetOutcome())
		sendBatch(t, stream, 2, mine[:])
		require.EqualValues(t, []byte{byte(wire.Settled)}, nextFrame(t, stream).GetResults().GetOutcome())
	})
}

// A node that answers for a table that it was not sent loses its stream, so that it cannot have tables sent to it again
// and again.
func TestAnswerForATableThatWasNotSentEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, problems := attachToHostileNode(t, func(stream grpc.BidiStreamingServer[frames.CoordinatorFrame,
			frames.NodeFrame]) error {
			if err := stream.Send(&frames.NodeFrame{
				Kind: &frames.NodeFrame_Table{Table: &frames.TableTakenFrame{Hash: []byte("newtable")}},
			}); err != nil {
				return err
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		})
		time.Sleep(5 * time.Second)
		requireProblem(t, problems(), "which it was not asked to take")
		require.False(t, c.State().Live)
	})
}

// A node that never says whether it took the table loses its stream.
func TestNodeThatDoesNotAnswerForTheTableLosesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		var table atomic.Pointer[engine.Table]
		table.Store(defaultTable)
		c, _ := attachToHostileNode(t, func(stream grpc.BidiStreamingServer[frames.CoordinatorFrame,
			frames.NodeFrame]) error {
			for {
				if _, err := stream.Recv(); err != nil {
					close(ended)
					return err
				}
			}
		}, func(c *ClientConfig) { c.Table = table.Load })
		synctest.Wait()
		table.Store(otherTable(t))
		changed := time.Now()
		c.TableChanged()
		<-ended
		require.Equal(t, helloTimeout, time.Since(changed))
	})
}
