package coordinator

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
	"probity/store"
)

// TestRowsRestWhileSinglesPress: for most of the time, but never for long, and not for a few singles.
func TestRowsRestWhileSinglesPress(t *testing.T) {
	const pieces, many = 5, 100 * press.Least
	synctest.Test(t, func(t *testing.T) {
		c := Coordinator{press: new(press.Meter)}
		took := func(work time.Duration, singles int) time.Duration {
			time.Sleep(press.Hold)
			began, b := time.Now(), c.newBreather()
			for range singles {
				c.press.Called(began)
			}
			for i := range pieces * breath {
				if i%breath == breath-1 {
					time.Sleep(work)
				}
				b.row(i)
			}
			return time.Since(began)
		}
		require.Equal(t, pieces*time.Millisecond, took(time.Millisecond, press.Least-1))
		require.Equal(t, pieces*(1+restTimes)*time.Millisecond, took(time.Millisecond, many))
		require.Equal(t, pieces*(4*time.Millisecond+longest), took(4*time.Millisecond, many))
	})
}

// TestChunksAreReadPatiently reads some at one time: at once while nobody calls; one rest after another while singles press, until
// the list is cancelled. A short list's does not wait for them.
func TestChunksAreReadPatiently(t *testing.T) {
	const chunks, work = 20, time.Millisecond
	for _, x := range []struct {
		name        string
		singles     int
		cancelled   bool
		long, short time.Duration // until the last has read its chunk
	}{
		{"nobody calls", press.Least - 1, false, work, work},
		{"singles press", 100 * press.Least, false, work + chunks*restTimes*work, work + restTimes*work},
		{"singles press, and the list is cancelled", 100 * press.Least, true, work, work + restTimes*work},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Coordinator{desk: newDesk(maxAsked), press: new(press.Meter), breaths: make(press.Breaths, 1), shortBreaths: make(press.Breaths, 1)}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				long := &live{c: c, ctx: ctx, job: &store.Job{Unique: 1_000_000}}
				short := &live{c: c, ctx: t.Context(), job: &store.Job{Unique: 1000}}
				c.desk.lives = []*live{long, short}
				if x.cancelled {
					cancel()
				}
				for range x.singles {
					c.press.Called(time.Now())
				}
				began := time.Now()
				read := func(l *live, want time.Duration) {
					b := (&flight{l: l}).newBreather()
					for row := range breath {
						if row == breath-1 {
							time.Sleep(work)
						}
						b.row(row)
					}
					assert.LessOrEqual(t, time.Since(began), want)
				}
				var all sync.WaitGroup
				for range chunks {
					all.Go(func() { read(long, x.long) })
				}
				all.Go(func() { read(short, x.short) })
				all.Wait()
				require.Equal(t, max(x.long, x.short), time.Since(began))
			})
		})
	}
}
