package wire

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
)

func testAsk() Ask {
	b := testBatch(0, "", 1)
	return Ask{Address: b.Rows[0].Address, Route: b.Rows[0].Route}
}

func TestWindowsHoldBackTheirClassAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		windows := func(class string) int {
			if class == "narrow" {
				return 30
			}
			return DefaultWindow
		}
		l := newLab(t, 100*time.Millisecond, change{server: func(c *ServerConfig) { c.Window = windows }}).settle()
		verify := func(chunk uint64, class string, rows int) {
			l.beside(func() {
				b := testBatch(chunk, class, rows)
				l.verify(t.Context(), b, time.Minute).complete(t, b)
			})
		}
		verify(1, "narrow", 40) // any size, where nothing is under way
		time.Sleep(2 * time.Second)
		for i := range 8 {
			verify(uint64(i)+2, "narrow", 10)
			verify(uint64(i)+20, "wide", 100)
		}
		time.Sleep(500 * time.Millisecond)
		l.settle()
		require.Equal(t, 40, l.prober.most["narrow"])
		require.Equal(t, 800, l.prober.most["wide"])
		require.Zero(t, l.client.Room("narrow"))
		l.aside.Wait()
		l.settle()
		require.Equal(t, 40, l.prober.most["narrow"])
		require.Equal(t, 17, l.prober.taken)
		require.Equal(t, MaxRows, l.client.Room("narrow"), "a whole batch may begin")
	})
}

func TestClosedWindowSendsBatchesHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 100*time.Millisecond, change{server: func(c *ServerConfig) { c.Window = func(string) int { return 0 } }}).settle()
		first := testBatch(1, "shut", 40)
		l.beside(func() { l.verify(t.Context(), first, time.Minute).complete(t, first) })
		time.Sleep(2 * time.Second)
		b := testBatch(2, "shut", 10)
		o := l.verify(t.Context(), b, 30*time.Second)
		o.complete(t, b)
		require.Equal(t, 10, o.later)
		require.Equal(t, 30*time.Second, o.took)
		require.Equal(t, 1, l.prober.taken)
	})
}

func TestNodeIsNeverOverItsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 10*time.Millisecond, change{server: func(c *ServerConfig) { c.MaxRows = 250 }}).settle()
		for i := range 20 {
			l.beside(func() {
				b := testBatch(uint64(i), "tail", 100)
				l.verify(t.Context(), b, time.Minute).complete(t, b)
			})
		}
		l.aside.Wait()
		l.settle()
		require.Equal(t, 200, l.prober.most["tail"])
	})
}

func TestSingleIsAnsweredBesideBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		l.beside(func() { l.verify(t.Context(), testBatch(1, "tail", 4096), 10*time.Second) })
		time.Sleep(time.Second)
		a, err := l.client.Single(t.Context(), testAsk())
		require.NoError(t, err)
		require.Equal(t, engine.ReasonMailboxNotFound, a.Verdict.Reason)
		require.Equal(t, "n1", a.Node)
	})
}

func TestSingleAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		for name, single := range map[string]func(context.Context, Ask) (Answer, error){
			"the node is in time": func(ctx context.Context, a Ask) (Answer, error) {
				<-ctx.Done()
				return Answer{Verdict: engine.Sure(engine.ReasonTimeout, "node", a.Flags, time.Now()), Node: "n1"}, nil
			},
			"the node is not": func(ctx context.Context, _ Ask) (Answer, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				return Answer{}, errors.New("too late")
			},
		} {
			l.prober.single.Store(&single)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			began := time.Now()
			a, err := l.client.Single(ctx, testAsk())
			cancel()
			require.NoError(t, err, name)
			require.Equal(t, engine.ReasonTimeout, a.Verdict.Reason, name)
			require.Equal(t, engine.Unknown, a.Verdict.Status, name)
			require.LessOrEqual(t, time.Since(began), 2*time.Second, name)
			time.Sleep(2 * time.Second)
		}
	})
}

func TestSingleOfACutOffNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Second, change{}).settle()
		l.cable.cut(out, back)
		time.Sleep(Patience + time.Second)
		_, err := l.client.Single(t.Context(), testAsk())
		require.ErrorIs(t, err, ErrGone)
		l.server.mu.Lock()
		require.True(t, l.server.alone)
		l.server.mu.Unlock()
	})
}

// A bad network for five minutes: whatever happens, each row of a batch that ends well has one result, a batch that does not
// ends with ErrGone, no probe begins without a lease, and the node is never given up while it may probe.
func TestBadNetwork(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, 150*time.Millisecond, change{}).settle()
			r := rand.New(rand.NewPCG(seed, 1))
			ended := make(chan struct{})
			l.beside(func() { spoil(l.cable, r, ended) })
			var all sync.WaitGroup
			for worker := range 4 {
				all.Go(func() { verifyAll(t, l, uint64(worker)*100, 12) })
			}
			all.Wait()
			close(ended)
			l.aside.Wait()
			l.cable.heal()
			time.Sleep(time.Minute)
			l.settle()
			require.Zero(t, l.client.State().Rows)
			require.Zero(t, l.server.rows)
			l.neverUnderTwoMasters(t)
		})
	}
}

func spoil(c *cable, r *rand.Rand, ended <-chan struct{}) {
	for {
		switch r.IntN(5) {
		case 0:
			c.cut(out)
		case 1:
			c.cut(back)
		case 2:
			c.cut(out, back)
		case 3:
			c.sever()
		}
		time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
		c.heal()
		select {
		case <-time.After(time.Duration(r.IntN(10_000)) * time.Millisecond):
		case <-ended:
			return
		}
	}
}

func verifyAll(t *testing.T, l *lab, from uint64, batches int) {
	for i := range batches {
		b := testBatch(from+uint64(i), "tail", 100)
		o := l.verify(t.Context(), b, time.Minute)
		if o.err == nil {
			o.complete(t, b)
			continue
		}
		require.ErrorIs(t, o.err, ErrGone)
		time.Sleep(5 * time.Second)
	}
}

// neverUnderTwoMasters: each time that the coordinator gave the node up, the node was alone by then, and each probe began
// while it was not.
func (l *lab) neverUnderTwoMasters(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lost := range l.lost {
		require.True(t, l.aloneAt(lost), "given up at %v while it might probe", lost)
	}
	for _, at := range l.prober.begun {
		require.False(t, l.aloneAt(at.Add(-1)) && l.aloneAt(at.Add(1)), "a probe at %v without a lease", at)
	}
}

func (l *lab) aloneAt(at time.Time) bool {
	i, j := 0, 0
	for i < len(l.alone) && !l.alone[i].After(at) {
		i++
	}
	for j < len(l.again) && !l.again[j].After(at) {
		j++
	}
	return i > j
}
