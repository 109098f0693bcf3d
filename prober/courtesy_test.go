package prober

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
)

// TestBatchesRestOneAfterAnother lets many batches breathe at one time: at once while nobody calls; one after another, each for as
// long as its work took, while singles press.
func TestBatchesRestOneAfterAnother(t *testing.T) {
	for _, x := range []struct {
		name        string
		calls       int
		work, piece time.Duration // that all have done, and the time until the last has rested
	}{
		{"nobody calls", 0, 300 * time.Microsecond, 0},
		{"singles press", press.Least, 300 * time.Microsecond, 300 * time.Microsecond},
		{"singles press, and the work was long", press.Least, time.Second / 20, longestRest},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const batches = 20
				p := &Prober{rests: press.NewRests()}
				start := time.Now()
				time.Sleep(x.work)
				for range x.calls {
					p.calls.called(time.Now())
				}
				var all sync.WaitGroup
				began := time.Now()
				for range batches {
					v := &verification{p: p, rested: start}
					all.Go(v.breathe)
				}
				all.Wait()
				require.Equal(t, batches*x.piece, time.Since(began))
			})
		})
	}
}
