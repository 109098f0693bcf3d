package coordinator

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire/press"
)

// TestRowsRestWhileSinglesPress: three parts of four of the time, but never for long, and not for a few singles.
func TestRowsRestWhileSinglesPress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Coordinator
		took := func(work time.Duration, singles int) time.Duration {
			time.Sleep(2 * press.Span)
			began, b := time.Now(), c.newBreather()
			for range singles {
				c.press.Called(began)
			}
			for i := range 10 * breath {
				if i%breath == breath-1 {
					time.Sleep(work)
				}
				b.row(i)
			}
			return time.Since(began)
		}
		require.Equal(t, 10*time.Millisecond, took(time.Millisecond, press.Least-1))
		require.Equal(t, 10*(1+restTimes)*time.Millisecond, took(time.Millisecond, press.Least))
		require.Equal(t, 10*(4*time.Millisecond+longest), took(4*time.Millisecond, press.Least))
	})
}

// TestChunksAreReadPatiently reads some at one time: at once while nobody calls, with one rest after another while singles press.
func TestChunksAreReadPatiently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Coordinator{rests: press.NewRests()}
		const chunks, work = 20, time.Millisecond
		read := func() time.Duration {
			var all sync.WaitGroup
			began := time.Now()
			for range chunks {
				all.Go(func() {
					skip := c.patiently(func(row uint32) bool { return row%2 == 0 })
					for row := range uint32(breath) {
						if row == breath-1 {
							time.Sleep(work)
						}
						require.Equal(t, row%2 == 0, skip(row))
					}
				})
			}
			all.Wait()
			return time.Since(began)
		}
		require.Equal(t, work, read())
		for range press.Least {
			c.press.Called(time.Now())
		}
		require.Equal(t, work+chunks*restTimes*work, read())
	})
}
