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

	"probity/prober/wire"
	"probity/prober/wire/timing"
)

func TestEachRowHasOneResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Millisecond, testOptions{}).waitIdle()
		require.True(t, l.client.State().Usable)
		require.Equal(t, wire.Hello{Version: "1.2.3",
			Identities: []wire.Identity{{Name: "192.0.2.1", Local: "10.0.0.1", Public: "192.0.2.1",
				EHLO: "a.example"}}}, l.client.State().Hello)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				b := testBatch(uint64(i), "tail", 2000)
				o := l.verify(t.Context(), b, time.Minute)
				o.requireComplete(t, b)
				require.Zero(t, o.returned)
			})
		}
		all.Wait()
		require.Equal(t, 3, l.prober.batches)
		l.waitIdle()
		require.Zero(t, l.server.rows, "every batch has ended")
		require.Zero(t, l.client.State().Rows)
	})
}

func TestResultsHaveTheMXOfTheirRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Millisecond, testOptions{}).waitIdle()
		require.NoError(t, l.client.Verify(t.Context(), testBatch(1, "tail", 1), time.Minute, func(r wire.Results) {
			require.Equal(t, []string{"mx.example.com"}, r.Rows[0].Verdict.MX)
			require.Equal(t, "test", r.Rows[0].Verdict.Rule)
		}))
	})
}

// TestStreamThatBreaksEndsItsBatches: the node forgets them, and their Verify fails with the rows that have no result.
func TestStreamThatBreaksEndsItsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, 100*time.Millisecond, testOptions{}).waitIdle()
		l.inBackground(func() {
			time.Sleep(3*time.Second + 50*time.Millisecond)
			l.network.closeConns()
			l.waitIdle()
			require.Zero(t, l.server.rows)
			require.Len(t, l.prober.probedAt, 30, "it probes no more of them")
		})
		b := testBatch(1, "tail", 300)
		o := l.verify(t.Context(), b, time.Minute)
		require.ErrorIs(t, o.err, wire.ErrGone)
		lost, ok := errors.AsType[*wire.Lost](o.err)
		require.True(t, ok)
		require.Len(t, o.rows, 30)
		require.Len(t, lost.Rows, 300)
		for i, row := range b.Rows {
			require.Equal(t, o.rows[row.Number] == 0, lost.Rows[i])
		}
		require.Empty(t, l.givenUpAt, "the node keeps its share")
		l.background.Wait()

		b = testBatch(2, "tail", 10)
		l.verify(t.Context(), b, time.Minute).requireComplete(t, b)
	})
}

// TestNodeIsToldOfMovedKeys: at once, and again on the next stream, since the first message may be lost; later
// streams bring none.
func TestNodeIsToldOfMovedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := atomic.Int32{}
		l := newTestNode(t, 0, testOptions{server: func(c *ServerConfig) {
			c.KeysMoved = func() { told.Add(1) }
		}}).waitIdle()
		require.Zero(t, told.Load())
		l.client.KeysMoved()
		l.waitIdle()
		require.EqualValues(t, 1, told.Load())
		for range 2 {
			l.network.closeConns()
			time.Sleep(10 * time.Second)
			l.waitIdle()
			require.EqualValues(t, 2, told.Load())
		}
		l.network.block(toNode, fromNode)
		time.Sleep(time.Minute)
		l.client.KeysMoved()
		l.network.unblock()
		time.Sleep(10 * time.Second)
		l.waitIdle()
		require.EqualValues(t, 3, told.Load(), "it was not attached")
	})
}

// Whichever direction fails, the node has stopped before the coordinator sends its rows to another node.
func TestIsolatedNodeStopsBeforeItIsGivenUp(t *testing.T) {
	for name, directions := range map[string][]int{"both": {toNode, fromNode}, "to the node": {toNode},
		"from the node": {fromNode}} {
		for _, after := range []time.Duration{0, 700 * time.Millisecond, 2 * time.Second, 3900 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				l := newTestNode(t, 50*time.Millisecond, testOptions{}).waitIdle()
				time.Sleep(after)
				cutAt := time.Now()
				l.network.block(directions...)
				b := testBatch(1, "tail", 2000)
				o := l.verify(t.Context(), b, time.Minute)
				require.ErrorIs(t, o.err, wire.ErrGone, name)
				time.Sleep(timing.NodeTimeout) // the batch may end with its stream, before the node is given up
				l.waitIdle()
				if name != "from the node" {
					require.Empty(t, l.prober.probedAt)
				}
				for _, at := range l.prober.probedAt {
					require.LessOrEqual(t, at.Sub(cutAt), timing.Lease, "%s: a probe after the lease", name)
				}
				require.Len(t, l.givenUpAt, 1)
				require.Len(t, l.isolations, 2)
				require.LessOrEqual(t, l.isolations[1].Sub(cutAt), timing.Lease)
				require.Less(t, l.isolations[1], l.givenUpAt[0])
				if name == "to the node" {
					cutAt = l.isolations[1] // until then it is received
				}
				require.LessOrEqual(t, l.givenUpAt[0].Sub(cutAt), timing.NodeTimeout)
				require.False(t, l.client.State().Usable)

				time.Sleep(30 * time.Second)
				l.network.unblock()
				time.Sleep(5 * time.Second)
				l.waitIdle()
				require.True(t, l.client.State().Usable)
				b = testBatch(2, "tail", 10)
				l.verify(t.Context(), b, time.Minute).requireComplete(t, b)
			})
		}
	}
}

func TestShortSilenceLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, 100*time.Millisecond, testOptions{}).waitIdle()
		l.inBackground(func() {
			time.Sleep(5 * time.Second)
			l.network.block(toNode, fromNode)
			time.Sleep(6 * time.Second)
			l.network.unblock()
		})
		b := testBatch(1, "tail", 300)
		o := l.verify(t.Context(), b, time.Minute)
		o.requireComplete(t, b)
		require.Zero(t, o.returned)
		require.Empty(t, l.givenUpAt)
		require.Len(t, l.isolations, 1, "alone only before the first hello")
	})
}

// Between the end of the lease and the coordinator's timeout the node forgets its rows, and keeps its share when the
// stream is back.
func TestRowsOfALostLeaseFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, 100*time.Millisecond, testOptions{}).waitIdle()
		l.inBackground(func() {
			time.Sleep(2100 * time.Millisecond)
			l.network.block(toNode, fromNode)
			time.Sleep(12500 * time.Millisecond)
			l.network.unblock()
		})
		o := l.verify(t.Context(), testBatch(1, "tail", 300), time.Minute)
		require.ErrorIs(t, o.err, wire.ErrGone)
		require.Less(t, o.duration, 30*time.Second)
		require.Empty(t, l.givenUpAt)
		require.Zero(t, l.server.rows)
	})
}

func TestHoldEndsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		b := testBatch(1, "tail", 100)
		o := l.verify(t.Context(), b, 10*time.Second)
		o.requireComplete(t, b)
		require.InDelta(t, 90, o.returned, 2)
		require.InDelta(t, 10, o.duration.Seconds(), 1)
	})
}

func TestCancelledBatchIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		b := testBatch(1, "tail", 100)
		o := l.verify(ctx, b, time.Minute)
		o.requireComplete(t, b)
		require.Equal(t, 95, o.returned)
		require.InDelta(t, 5.5, o.duration.Seconds(), 0.1)
	})
}

// hangingProber never ends a batch.
type hangingProber struct{ *slowProber }

func (hangingProber) Verify(ctx context.Context, _ *wire.Batch, _ time.Duration, _ func(wire.Results)) error {
	<-ctx.Done()
	return ctx.Err()
}

// uncancellableProber ignores its context.
type uncancellableProber struct {
	*slowProber
	release chan struct{}
}

func (d uncancellableProber) Verify(context.Context, *wire.Batch, time.Duration, func(wire.Results)) error {
	<-d.release
	return nil
}

func TestBatchEndsWithinGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newTestNode(t, time.Second, testOptions{server: func(c *ServerConfig) {
			c.Prober = uncancellableProber{newSlowProber(0), release}
		}}).waitIdle()
		b := testBatch(1, "tail", 100)
		o := l.verify(t.Context(), b, 30*time.Second)
		o.requireComplete(t, b)
		require.Equal(t, 100, o.returned)
		require.Equal(t, 30*time.Second+grace, o.duration)
		close(release)
	})
}

func TestProberErrorIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{server: func(c *ServerConfig) {
			c.Prober = hangingProber{newSlowProber(0)}
		}}).waitIdle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := l.verify(ctx, testBatch(1, "tail", 3), time.Minute)
		require.EqualError(t, o.err, "node n1: context canceled")
	})
}

func TestDrainReturnsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		l.inBackground(func() {
			time.Sleep(3500 * time.Millisecond)
			l.stop()
		})
		b := testBatch(1, "tail", 100)
		o := l.verify(t.Context(), b, time.Minute)
		o.requireComplete(t, b)
		require.Equal(t, 97, o.returned)
		began := time.Now()
		<-l.done
		require.Less(t, time.Since(began), 5*time.Second)
		l.waitIdle()
		require.True(t, l.client.State().Draining)
		o = l.verify(t.Context(), testBatch(2, "tail", 1), time.Minute)
		require.ErrorIs(t, o.err, wire.ErrGone)
	})
}

func TestDrainDoesNotWaitForAGoneCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{})
		ctx, gone := context.WithCancel(t.Context())
		second := make(chan error)
		c, err := NewClient(ClientConfig{Node: "n1", Version: "1.2.3", Coordinator: wire.Coordinator{ID: "c1", Term: 2},
			Table: l.client.cfg.Table, Dial: l.network.dial, Credentials: l.client.cfg.Credentials})
		require.NoError(t, err)
		go func() { second <- c.Run(ctx) }()
		time.Sleep(time.Second)
		ended := make(chan error)
		go func() {
			ended <- c.Verify(t.Context(), testBatch(1, "tail", 100), time.Minute, func(wire.Results) {})
		}()
		time.Sleep(time.Second)
		gone()
		require.NoError(t, <-second)
		require.ErrorIs(t, <-ended, wire.ErrGone)
		began := time.Now()
		l.stop()
		<-l.done
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
	})
}

func TestDrainDoesNotWaitForASilentCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		l.inBackground(func() { l.verify(t.Context(), testBatch(1, "tail", 100), time.Minute) })
		time.Sleep(3 * time.Second)
		l.network.block(toNode, fromNode)
		began := time.Now()
		l.stop()
		<-l.done
		require.LessOrEqual(t, time.Since(began), 25*time.Second)
	})
}
