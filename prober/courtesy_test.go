package prober

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"probity/prober/wire"
	"probity/prober/wire/press"
)

// TestBatchesBreatheOneAfterAnother lets many breathe at one time: at once while nobody calls; one after another, each for a time
// that its work decides, while singles press, until nobody waits for them. A short list's does not wait for theirs.
func TestBatchesBreatheOneAfterAnother(t *testing.T) {
	const batches, work = 20, 300 * time.Microsecond
	for _, x := range []struct {
		name        string
		calls       int
		work        time.Duration // that all have done
		gone        bool          // who waited for the long list
		long, short time.Duration // until the last has breathed
	}{
		{"nobody calls", press.Least - 1, work, false, 0, 0},
		{"singles press", 100 * press.Least, work, false, batches * restTimes * work, restTimes * work},
		{"singles press, and the work was long", 100 * press.Least, time.Second / 20, false, batches * longestRest, longestRest},
		{"singles press, and the list is cancelled", 100 * press.Least, work, true, 0, restTimes * work},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Prober{breaths: make(press.Breaths, 1), shortBreaths: make(press.Breaths, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if x.gone {
					cancel()
				}
				start := time.Now()
				time.Sleep(x.work)
				for range x.calls {
					p.calls.called(time.Now())
				}
				began := time.Now()
				breathe := func(who priority, over <-chan struct{}, want time.Duration) {
					v := &verification{p: p, who: who, over: over, breathed: start, sent: start, r: newRun(newSpare(1))}
					v.breathe()
					assert.LessOrEqual(t, time.Since(began), want)
				}
				var all sync.WaitGroup
				for range batches {
					all.Go(func() { breathe(bulk, ctx.Done(), x.long) })
				}
				all.Go(func() { breathe(short, t.Context().Done(), x.short) })
				all.Wait()
				require.Equal(t, max(x.long, x.short), time.Since(began))
			})
		})
	}
}

// TestABreathingBatchIsUnderWay lets one breath of a batch pass at a time: what was admitted before is asked, and what was answered
// is told.
func TestABreathingBatchIsUnderWay(t *testing.T) {
	var people []string
	for i := range 2 * breath {
		people = append(people, fmt.Sprintf("p%d", i))
	}
	h := &host{rcpt: knows(people...)}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		b.prober.breaths = make(press.Breaths, 1)
		b.prober.breaths <- struct{}{}
		for range 100 * press.Least {
			b.prober.calls.called(time.Now())
		}
		var rows []wire.Row
		for i, who := range people {
			rows = append(rows, b.rows(mxa, who+"@a.example")...)
			rows[i].Number = uint32(i)
		}
		var told atomic.Int64
		ctx, cancel := context.WithCancel(context.Background())
		var home sync.WaitGroup
		home.Go(func() {
			batch := &wire.Batch{Job: "j", Rows: rows, MaxAge: time.Hour, Started: time.Now()}
			assert.NoError(t, b.prober.Verify(ctx, batch, time.Minute, func(r wire.Results) { told.Add(int64(len(r.Rows))) }))
		})
		one := func() {
			<-b.prober.breaths
			b.prober.breaths <- struct{}{}
			synctest.Wait()
		}
		defer home.Wait()
		defer cancel()
		synctest.Wait()
		for range 4 { // two while the keys are made, one of the sorting, one of the look-up
			one()
		}
		time.Sleep(time.Second)
		require.NotEmpty(t, h.saw().dialed)
		require.Zero(t, told.Load())
		one()
		require.NotZero(t, told.Load())
		cancel()
		home.Wait()
		require.EqualValues(t, len(rows), told.Load())
	})
}
