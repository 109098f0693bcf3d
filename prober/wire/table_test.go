package wire

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
)

func otherTable(t *testing.T) *engine.Table {
	other, err := shipped.Override([]byte("retry_schedule = [\"2m\"]"))
	require.NoError(t, err)
	return other
}

// batchOf is a batch whose routes are of a table.
func batchOf(table *engine.Table, chunk uint64, rows int) *Batch {
	b := testBatch(chunk, "tail", rows)
	r := table.NewRoute([]engine.MX{{Preference: 1, Host: "mx.example.com"}})
	for i := range b.Rows {
		b.Rows[i].Route = &r
	}
	return b
}

// turning is a lab whose coordinator can change its table.
type turning struct {
	*lab
	table atomic.Pointer[engine.Table]
	node  atomic.Pointer[Server]
	deny  atomic.Pointer[error] // what the node says of a table

	mu    sync.Mutex // guards what follows
	used  []*engine.Table
	under int // rows under way whose results counted, at the last of those
}

func newTurning(t *testing.T, pace time.Duration, own *engine.Table) *turning {
	l := &turning{}
	l.table.Store(shipped)
	l.lab = newLab(t, pace, change{
		server: func(c *ServerConfig) {
			c.Table = func() *engine.Table { return own }
			c.Use = func(table *engine.Table) error {
				under := 0
				if s := l.node.Load(); s != nil {
					s.mu.Lock()
					under = s.rows
					s.mu.Unlock()
				}
				l.mu.Lock()
				defer l.mu.Unlock()
				l.used, l.under = append(l.used, table), under
				if deny := l.deny.Load(); deny != nil {
					return *deny
				}
				return nil
			}
		},
		client: func(c *ClientConfig) { c.Table = l.table.Load }})
	l.node.Store(l.server)
	l.settle()
	return l
}

// uses are the hashes of the tables that the node was told to use, and how many rows were under way at the last of them.
func (l *turning) uses() (hashes [][8]byte, under int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, table := range l.used {
		hashes = append(hashes, table.Hash())
	}
	return hashes, l.under
}

func (l *turning) change(to *engine.Table) {
	l.table.Store(to)
	l.client.TableChanged()
	l.settle()
}

func TestNodeTakesTheCoordinatorsTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurning(t, time.Millisecond, otherTable(t))
		require.True(t, l.client.State().Usable, l.client.State().Problem)
		used, _ := l.uses()
		require.Equal(t, [][8]byte{shipped.Hash()}, used)
		b := testBatch(1, "tail", 10)
		o := l.verify(t.Context(), b, time.Minute)
		o.complete(t, b)
		require.Zero(t, o.later)
		_, err := l.client.Single(t.Context(), testAsk())
		require.NoError(t, err)
		l.cable.sever()
		time.Sleep(5 * time.Second)
		require.True(t, l.client.State().Live)
		used, _ = l.uses()
		require.Len(t, used, 1, "it is not sent again to a node that has it")
	})
}

// A batch that is under way when the table changes comes home: what was answered was by the old table, the rest is asked by the new.
func TestNoBatchIsJudgedByTwoTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTurning(t, time.Second, shipped), otherTable(t)
		old := testBatch(1, "tail", 100)
		l.beside(func() {
			o := l.verify(t.Context(), old, time.Minute)
			o.complete(t, old)
			require.Equal(t, 90, o.later)
			require.Equal(t, 10500*time.Millisecond, o.took)
		})
		time.Sleep(10*time.Second + 500*time.Millisecond)
		l.change(next)
		used, under := l.uses()
		require.Zero(t, under, "nothing was under way when it changed")
		require.Equal(t, [][8]byte{next.Hash()}, used)
		require.True(t, l.client.State().Usable, "the node keeps its share")

		stale := testBatch(2, "tail", 5)
		o := l.verify(t.Context(), stale, time.Minute)
		o.complete(t, stale)
		require.Equal(t, 5, o.later, "its routes are of a table that has gone")
		require.Zero(t, o.took)
		fresh := batchOf(next, 3, 5)
		o = l.verify(t.Context(), fresh, time.Minute)
		o.complete(t, fresh)
		require.Zero(t, o.later)
	})
}

// The same while the stream is broken: the batch goes on at the node, and is called home when the stream is there again.
func TestTableChangesWhileTheStreamIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTurning(t, time.Second, shipped), otherTable(t)
		old := testBatch(1, "tail", 100)
		l.beside(func() {
			o := l.verify(t.Context(), old, time.Minute)
			o.complete(t, old)
			require.Greater(t, o.later, 80)
		})
		time.Sleep(5*time.Second + 500*time.Millisecond)
		l.cable.sever()
		l.change(next)
		time.Sleep(3 * time.Second)
		require.True(t, l.client.State().Live, l.client.State().Problem)
		used, _ := l.uses()
		require.Equal(t, [][8]byte{next.Hash()}, used)
		fresh := batchOf(next, 2, 2)
		o := l.verify(t.Context(), fresh, time.Minute)
		o.complete(t, fresh)
		require.Zero(t, o.later)
	})
}

func TestTableChangesBackBeforeTheNodeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTurning(t, time.Second, shipped), otherTable(t)
		l.cable.cut(back)
		l.change(next)
		l.change(shipped)
		l.cable.heal()
		time.Sleep(time.Second)
		used, _ := l.uses()
		require.Equal(t, [][8]byte{next.Hash(), shipped.Hash()}, used)
		b := testBatch(1, "tail", 2)
		o := l.verify(t.Context(), b, time.Minute)
		o.complete(t, b)
		require.Zero(t, o.later)
	})
}

// A single waits for the node's table, and one whose route is of a table that has gone is told so.
func TestSingleIsJudgedByOneTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTurning(t, time.Second, shipped), otherTable(t)
		asked, answer := make(chan struct{}), make(chan struct{})
		slow := func(ctx context.Context, a Ask) (Answer, error) {
			close(asked)
			<-answer
			return Answer{}, nil
		}
		l.prober.single.Store(&slow)
		l.beside(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := l.client.Single(ctx, testAsk())
			require.ErrorIs(t, err, ErrOtherTable, "the table changed while it was asked")
		})
		<-asked
		old := testBatch(1, "tail", 100)
		l.beside(func() { l.verify(t.Context(), old, time.Minute) })
		l.settle()
		l.change(next)
		l.prober.single.Store(nil)
		close(answer)
		l.aside.Wait()
		_, err := l.client.Single(t.Context(), testAsk())
		require.ErrorIs(t, err, ErrOtherTable)
		ask := testAsk()
		ask.Route = batchOf(next, 1, 1).Rows[0].Route
		_, err = l.client.Single(t.Context(), ask)
		require.NoError(t, err)
	})
}

// A node that cannot work by the coordinator's table says why, on both sides, and takes no work.
func TestNodeThatCannotTakeTheTableTakesNoWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, next := newTurning(t, time.Second, shipped), otherTable(t)
		deny := errors.New("the terms of receivers are not respected")
		l.deny.Store(&deny)
		l.change(next)
		for range 20 {
			time.Sleep(5 * time.Second)
			state := l.client.State()
			require.False(t, state.Live)
			require.False(t, state.Usable)
			require.Contains(t, state.Problem, "the terms of receivers are not respected")
		}
		require.Contains(t, l.settle().log.String(), "cannot be used; taking no work")
		require.ErrorIs(t, l.verify(t.Context(), batchOf(next, 1, 1), time.Minute).err, ErrGone)
		l.lab.mu.Lock()
		lost := len(l.lost)
		l.lab.mu.Unlock()
		require.Equal(t, 1, lost, "it does not come and go")
		l.deny.Store(nil)
		time.Sleep(retryRefused)
		require.True(t, l.client.State().Usable)
	})
}

// A table that only a newer engine understands, or that was damaged, is a problem that is told; batches of it go home.
func TestTableThatTheEngineCannotParseIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTurning(t, time.Millisecond, shipped)
		mine := shipped.Hash()
		stream, hello, err := rawCoordinator(t, l.lab, &CoordinatorHelloFrame{Protocol: Protocol, ProtocolMost: Protocol + 1, Table: []byte("newtable")})
		require.NoError(t, err)
		require.Equal(t, mine[:], hello.GetTable())
		for words, layers := range map[string][][]byte{
			"its hash is another": append(shipped.Layers(), []byte("[newer]")),
			"0 layers":            nil,
		} {
			require.NoError(t, stream.Send(&CoordinatorFrame{Kind: &CoordinatorFrame_Table{Table: &TableFrame{Hash: []byte("newtable"), Layers: layers}}}))
			taken := nextFrame(t, stream).GetTable()
			require.Contains(t, taken.GetProblem(), words)
			require.Equal(t, "newtable", string(taken.GetHash()))
		}
		used, _ := l.uses()
		require.Empty(t, used)
		sendBatch(t, stream, 1, []byte("newtable"))
		require.EqualValues(t, []byte{byte(Later)}, nextFrame(t, stream).GetResults().GetOutcome())
		sendBatch(t, stream, 2, mine[:])
		require.EqualValues(t, []byte{byte(Settled)}, nextFrame(t, stream).GetResults().GetOutcome())
	})
}

// A node that answers for a table that it was not sent loses its stream, so that it cannot have tables sent to it again and again.
func TestAnswerForATableThatWasNotSentEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, problems := joinRogue(t, func(stream grpc.BidiStreamingServer[CoordinatorFrame, NodeFrame]) error {
			if err := stream.Send(&NodeFrame{Kind: &NodeFrame_Table{Table: &TableTakenFrame{Hash: []byte("newtable")}}}); err != nil {
				return err
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		})
		time.Sleep(5 * time.Second)
		contains(t, problems(), "which it was not asked to take")
		require.False(t, c.State().Live)
	})
}

// A node that never says whether it took the table loses its stream.
func TestNodeThatDoesNotAnswerForTheTableLosesItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		var table atomic.Pointer[engine.Table]
		table.Store(shipped)
		c, _ := joinRogue(t, func(stream grpc.BidiStreamingServer[CoordinatorFrame, NodeFrame]) error {
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
		require.Equal(t, greeting, time.Since(changed))
	})
}
