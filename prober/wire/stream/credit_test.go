package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/timing"
)

func testRequest() wire.SingleRequest {
	b := testBatch(0, "", 1)
	return wire.SingleRequest{Address: b.Rows[0].Address, Route: b.Rows[0].Route}
}

func TestWindowLimitsItsClassOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := func(class string) int {
			if class == "narrow" {
				return 30
			}
			return defaultWindow
		}
		l := newTestNode(t, 100*time.Millisecond, testOptions{server: func(c *ServerConfig) {
			c.Window = windows
		}}).waitIdle()
		verify := func(chunk uint64, class string, rows int) {
			l.inBackground(func() {
				b := testBatch(chunk, class, rows)
				l.verify(t.Context(), b, time.Minute).requireComplete(t, b)
			})
		}
		verify(1, "narrow", 40) // any size, where nothing is under way
		time.Sleep(2 * time.Second)
		for i := range 8 {
			verify(uint64(i)+2, "narrow", 10)
			verify(uint64(i)+20, "wide", 100)
		}
		time.Sleep(500 * time.Millisecond)
		l.waitIdle()
		require.Equal(t, 40, l.prober.maxUnderWay["narrow"])
		require.Equal(t, 800, l.prober.maxUnderWay["wide"])
		require.Zero(t, l.client.CreditLeft("narrow"))
		l.background.Wait()
		l.waitIdle()
		require.Equal(t, 40, l.prober.maxUnderWay["narrow"])
		require.Equal(t, 17, l.prober.batches)
		require.Equal(t, wire.MaxRows, l.client.CreditLeft("narrow"), "a whole batch may begin")
	})
}

func TestClosedWindowReturnsBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, 100*time.Millisecond, testOptions{server: func(c *ServerConfig) {
			c.Window = func(string) int { return 0 }
		}}).waitIdle()
		first := testBatch(1, "shut", 40)
		l.inBackground(func() { l.verify(t.Context(), first, time.Minute).requireComplete(t, first) })
		time.Sleep(2 * time.Second)
		b := testBatch(2, "shut", 10)
		o := l.verify(t.Context(), b, 30*time.Second)
		o.requireComplete(t, b)
		require.Equal(t, 10, o.returned)
		require.Equal(t, 30*time.Second, o.duration)
		require.Equal(t, 1, l.prober.batches)
	})
}

func TestNodeRowLimitIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, 10*time.Millisecond, testOptions{server: func(c *ServerConfig) {
			c.MaxRows = 250
		}}).waitIdle()
		for i := range 20 {
			l.inBackground(func() {
				b := testBatch(uint64(i), "tail", 100)
				l.verify(t.Context(), b, time.Minute).requireComplete(t, b)
			})
		}
		l.background.Wait()
		l.waitIdle()
		require.Equal(t, 200, l.prober.maxUnderWay["tail"])
	})
}

func TestSingleIsAnsweredDuringBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		l.inBackground(func() { l.verify(t.Context(), testBatch(1, "tail", 4096), 10*time.Second) })
		time.Sleep(time.Second)
		a, err := l.client.Single(t.Context(), testRequest())
		require.NoError(t, err)
		require.Equal(t, engine.ReasonMailboxNotFound, a.Verdict.Reason)
		require.Equal(t, "n1", a.Node)
	})
}

func TestSingleAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		for name, single := range map[string]func(context.Context, wire.SingleRequest) (wire.Answer, error){
			"the node is in time": func(ctx context.Context, sr wire.SingleRequest) (wire.Answer, error) {
				<-ctx.Done()
				return wire.Answer{Verdict: engine.VerdictFor(engine.ReasonTimeout, "node", sr.Flags, time.Now()),
					Node: "n1"}, nil
			},
			"the node is not": func(ctx context.Context, _ wire.SingleRequest) (wire.Answer, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				return wire.Answer{}, errors.New("too late")
			},
		} {
			l.prober.single.Store(&single)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			began := time.Now()
			a, err := l.client.Single(ctx, testRequest())
			cancel()
			require.NoError(t, err, name)
			require.Equal(t, engine.ReasonTimeout, a.Verdict.Reason, name)
			require.Equal(t, engine.Unknown, a.Verdict.Status, name)
			require.LessOrEqual(t, time.Since(began), 2*time.Second, name)
			time.Sleep(2 * time.Second)
		}
	})
}

func TestSingleAtAnIsolatedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestNode(t, time.Second, testOptions{}).waitIdle()
		l.network.block(toNode, fromNode)
		time.Sleep(timing.NodeTimeout + time.Second)
		_, err := l.client.Single(t.Context(), testRequest())
		require.ErrorIs(t, err, wire.ErrGone)
		l.server.mu.Lock()
		require.True(t, l.server.isolated)
		l.server.mu.Unlock()
	})
}

// A bad network for five minutes: whatever happens, each row of a batch that ends well has one result, a batch that
// does not ends with ErrGone, no probe begins without a lease, and the node is never given up while it may probe.
func TestBadNetworkLosesNoRow(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestNode(t, 150*time.Millisecond, testOptions{}).waitIdle()
			r := rand.New(rand.NewPCG(seed, 1))
			ended := make(chan struct{})
			l.inBackground(func() { disturb(l.network, r, ended) })
			var all sync.WaitGroup
			for worker := range 4 {
				all.Go(func() { verifyAll(t, l, uint64(worker)*100, 12) })
			}
			all.Wait()
			close(ended)
			l.background.Wait()
			l.network.unblock()
			time.Sleep(time.Minute)
			l.waitIdle()
			require.Zero(t, l.client.State().Rows)
			require.Zero(t, l.server.rows)
			l.requireOneCoordinator(t)
		})
	}
}

func disturb(c *flakyNetwork, r *rand.Rand, ended <-chan struct{}) {
	for {
		switch r.IntN(5) {
		case 0:
			c.block(toNode)
		case 1:
			c.block(fromNode)
		case 2:
			c.block(toNode, fromNode)
		case 3:
			c.closeConns()
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
		c.unblock()
		select {
		case <-time.After(time.Duration(r.IntN(10_000)) * time.Millisecond):
		case <-ended:
			return
		}
	}
}

func verifyAll(t *testing.T, l *testNode, from uint64, batches int) {
	for i := range batches {
		b := testBatch(from+uint64(i), "tail", 100)
		o := l.verify(t.Context(), b, time.Minute)
		if o.err == nil {
			o.requireComplete(t, b)
			continue
		}
		require.ErrorIs(t, o.err, wire.ErrGone)
		time.Sleep(5 * time.Second)
	}
}

// requireOneCoordinator: each time that the coordinator gave the node up, the node was alone by then, and each probe
// began while it was not.
func (l *testNode) requireOneCoordinator(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lost := range l.givenUpAt {
		require.True(t, l.wasIsolatedAt(lost), "given up at %v while it might probe", lost)
	}
	for _, at := range l.prober.probedAt {
		require.False(t, l.wasIsolatedAt(at.Add(-1)) && l.wasIsolatedAt(at.Add(1)), "a probe at %v without a lease", at)
	}
}

func (l *testNode) wasIsolatedAt(at time.Time) bool {
	i, j := 0, 0
	for i < len(l.isolations) && !l.isolations[i].After(at) {
		i++
	}
	for j < len(l.leasesRegained) && !l.leasesRegained[j].After(at) {
		j++
	}
	return i > j
}
