package prober

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		{"singles press", press.Least, work, false, batches * restTimes * work, restTimes * work},
		{"singles press, and the work was long", press.Least, time.Second / 20, false, batches * longestRest, longestRest},
		{"singles press, and the list is cancelled", press.Least, work, true, 0, restTimes * work},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Prober{breaths: make(press.Breaths, 1), short: make(press.Breaths, 1)}
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
					v := &verification{p: p, who: who, over: over, breathed: start}
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
