package wire

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRowsComeHomeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Millisecond, change{}).settle()
		require.True(t, l.client.State().Usable)
		require.Equal(t, Hello{Version: "1.2.3", Identities: []Identity{{"192.0.2.1", "10.0.0.1", "192.0.2.1", "a.example"}}}, l.client.State().Hello)
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				b := testBatch(uint64(i), "tail", 2000)
				o := l.verify(t.Context(), b, time.Minute)
				o.complete(t, b)
				require.Zero(t, o.later)
			})
		}
		all.Wait()
		require.Equal(t, 3, l.prober.taken)
		l.settle()
		require.Zero(t, l.server.rows, "everything was acknowledged")
		require.Zero(t, l.client.State().Rows)
	})
}

func TestResultsBearTheMXOfTheirRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Millisecond, change{}).settle()
		require.NoError(t, l.client.Verify(t.Context(), testBatch(1, "tail", 1), time.Minute, func(r Results) {
			require.Equal(t, []string{"mx.example.com"}, r.Rows[0].Verdict.MX)
			require.Equal(t, "test", r.Rows[0].Verdict.Rule)
		}))
	})
}

func TestStreamThatBreaksLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 100*time.Millisecond, change{}).settle()
		l.beside(func() {
			for range 7 {
				time.Sleep(3 * time.Second)
				l.cable.sever()
			}
		})
		b := testBatch(1, "tail", 300)
		o := l.verify(t.Context(), b, time.Minute)
		o.complete(t, b)
		require.Zero(t, o.later)
		require.Equal(t, 1, l.prober.taken, "the node went on with what it had")
		for row, n := range l.prober.rows {
			require.Equal(t, 1, n, "row %d", row)
		}
		require.Empty(t, l.lost)
	})
}

func TestNodeThatForgotIsSentTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 100*time.Millisecond, change{}).settle()
		l.beside(func() {
			time.Sleep(10 * time.Second)
			l.server.mu.Lock() // as if the node's process had been replaced
			l.server.dropRuns(func(*run) bool { return true })
			l.server.mu.Unlock()
			l.cable.sever()
		})
		b := testBatch(1, "tail", 300)
		l.verify(t.Context(), b, time.Minute).complete(t, b)
		require.Equal(t, 2, l.prober.taken)
		twice := 0
		for _, n := range l.prober.rows {
			twice += n - 1
		}
		require.LessOrEqual(t, twice, 1)
	})
}

// Whichever direction fails, the node has stopped before the coordinator sends its rows elsewhere.
func TestCutOffNodeStopsBeforeItIsGivenUp(t *testing.T) {
	for name, ways := range map[string][]int{"both": {out, back}, "to the node": {out}, "from the node": {back}} {
		for _, after := range []time.Duration{0, 700 * time.Millisecond, 2 * time.Second, 3900 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 50*time.Millisecond, change{}).settle()
				time.Sleep(after)
				cutAt := time.Now()
				l.cable.cut(ways...)
				b := testBatch(1, "tail", 2000)
				o := l.verify(t.Context(), b, time.Minute)
				require.ErrorIs(t, o.err, ErrGone, name)
				l.settle()
				if name != "from the node" {
					require.Empty(t, l.prober.begun)
				}
				for _, at := range l.prober.begun {
					require.LessOrEqual(t, at.Sub(cutAt), Lease, "%s: a probe after the lease", name)
				}
				require.Len(t, l.lost, 1)
				require.Len(t, l.alone, 2)
				require.LessOrEqual(t, l.alone[1].Sub(cutAt), Lease)
				require.Less(t, l.alone[1], l.lost[0])
				if name == "to the node" {
					cutAt = l.alone[1] // until then it is heard
				}
				require.LessOrEqual(t, l.lost[0].Sub(cutAt), Patience)
				require.False(t, l.client.State().Usable)

				time.Sleep(30 * time.Second)
				l.cable.heal()
				time.Sleep(5 * time.Second)
				l.settle()
				require.True(t, l.client.State().Usable)
				b = testBatch(2, "tail", 10)
				l.verify(t.Context(), b, time.Minute).complete(t, b)
			})
		}
	}
}

func TestShortSilenceIsRiddenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 100*time.Millisecond, change{}).settle()
		l.beside(func() {
			time.Sleep(5 * time.Second)
			l.cable.cut(out, back)
			time.Sleep(6 * time.Second)
			l.cable.heal()
		})
		b := testBatch(1, "tail", 300)
		o := l.verify(t.Context(), b, time.Minute)
		o.complete(t, b)
		require.Zero(t, o.later)
		require.Empty(t, l.lost)
		require.Len(t, l.alone, 1, "alone only before the first hello")
	})
}

// Between the end of the lease and the coordinator's patience, rows are sent home and arrive when the stream is back.
func TestRowsOfALostLeaseComeHomeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 100*time.Millisecond, change{}).settle()
		l.beside(func() {
			time.Sleep(2100 * time.Millisecond)
			l.cable.cut(out, back)
			time.Sleep(12500 * time.Millisecond)
			l.cable.heal()
		})
		b := testBatch(1, "tail", 300)
		o := l.verify(t.Context(), b, time.Minute)
		o.complete(t, b)
		require.NotZero(t, o.later)
		require.Less(t, o.took, 30*time.Second)
		require.Empty(t, l.lost)
	})
}

func TestHoldEndsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		b := testBatch(1, "tail", 100)
		o := l.verify(t.Context(), b, 10*time.Second)
		o.complete(t, b)
		require.InDelta(t, 90, o.later, 2)
		require.InDelta(t, 10, o.took.Seconds(), 1)
	})
}

func TestCancelledBatchComesHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		b := testBatch(1, "tail", 100)
		o := l.verify(ctx, b, time.Minute)
		o.complete(t, b)
		require.Equal(t, 95, o.later)
		require.InDelta(t, 5.5, o.took.Seconds(), 0.1)
	})
}

// stuck never ends a batch.
type stuck struct{ *slow }

func (stuck) Verify(ctx context.Context, _ *Batch, _ time.Duration, _ func(Results)) error {
	<-ctx.Done()
	return ctx.Err()
}

// deaf does not even hear that it should.
type deaf struct {
	*slow
	free chan struct{}
}

func (d deaf) Verify(context.Context, *Batch, time.Duration, func(Results)) error {
	<-d.free
	return nil
}

func TestNoNodeHoldsABatchPastItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		l := newLab(t, time.Second, change{server: func(c *ServerConfig) { c.Prober = deaf{newSlow(0), free} }}).settle()
		b := testBatch(1, "tail", 100)
		o := l.verify(t.Context(), b, 30*time.Second)
		o.complete(t, b)
		require.Equal(t, 100, o.later)
		require.Equal(t, 30*time.Second+Grace, o.took)
		close(free)
	})
}

func TestProberThatFailsIsQuoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{server: func(c *ServerConfig) { c.Prober = stuck{newSlow(0)} }}).settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o := l.verify(ctx, testBatch(1, "tail", 3), time.Minute)
		require.EqualError(t, o.err, "node n1: context canceled")
	})
}

func TestStoppingNodeSendsRowsHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		l.beside(func() {
			time.Sleep(3500 * time.Millisecond)
			l.stop()
		})
		b := testBatch(1, "tail", 100)
		o := l.verify(t.Context(), b, time.Minute)
		o.complete(t, b)
		require.Equal(t, 97, o.later)
		began := time.Now()
		<-l.ended
		require.Less(t, time.Since(began), 5*time.Second)
		l.settle()
		require.True(t, l.client.State().Draining)
		o = l.verify(t.Context(), testBatch(2, "tail", 1), time.Minute)
		require.ErrorIs(t, o.err, ErrGone)
	})
}

// A stream that breaks while the node stops is made again, so that what is done is not done twice.
func TestStoppingNodeWaitsForItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		l.beside(func() {
			time.Sleep(3500 * time.Millisecond)
			l.cable.cut(out, back)
			l.stop()
			time.Sleep(time.Second)
			l.cable.sever()
			l.cable.heal()
		})
		b := testBatch(1, "tail", 100)
		o := l.verify(t.Context(), b, time.Minute)
		o.complete(t, b)
		require.Equal(t, 97, o.later)
		<-l.ended
	})
}

func TestStoppingNodeDoesNotWaitForOneThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{})
		ctx, gone := context.WithCancel(t.Context())
		second := make(chan error)
		c, err := NewClient(ClientConfig{Node: "n1", Version: "1.2.3", Coordinator: Coordinator{"c1", 2}, Table: l.client.cfg.Table, Dial: l.cable.dial, Credentials: l.client.cfg.Credentials})
		require.NoError(t, err)
		go func() { second <- c.Run(ctx) }()
		time.Sleep(time.Second)
		ended := make(chan error)
		go func() { ended <- c.Verify(t.Context(), testBatch(1, "tail", 100), time.Minute, func(Results) {}) }()
		time.Sleep(time.Second)
		gone()
		require.NoError(t, <-second)
		require.ErrorIs(t, <-ended, ErrGone)
		began := time.Now()
		l.stop()
		<-l.ended
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
	})
}

func TestStoppingNodeDoesNotWaitForASilentCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		l.beside(func() { l.verify(t.Context(), testBatch(1, "tail", 100), time.Minute) })
		time.Sleep(3 * time.Second)
		l.cable.cut(out, back)
		began := time.Now()
		l.stop()
		<-l.ended
		require.LessOrEqual(t, time.Since(began), 25*time.Second)
	})
}
