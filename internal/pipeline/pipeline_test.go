package pipeline

import (
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type item struct{ number, square int }

// upTo fills items with the numbers below n.
func upTo(n int) func(*item) error {
	next := 0
	return func(x *item) error {
		if next == n {
			return io.EOF
		}
		x.number = next
		next++
		return nil
	}
}

func TestResultsAreTakenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		inWork, most := 0, 0
		work := func(x *item) error {
			mu.Lock()
			inWork++
			most = max(most, inWork)
			mu.Unlock()
			time.Sleep(time.Duration(x.number*7%5) * time.Second)
			mu.Lock()
			inWork--
			mu.Unlock()
			x.square = x.number * x.number
			return nil
		}
		distinct, taken := map[*item]bool{}, 0
		require.NoError(t, Run(new(Pool[item]), 4, upTo(100), work, func(x *item) error {
			require.Equal(t, item{taken, taken * taken}, *x)
			distinct[x] = true
			taken++
			return nil
		}))
		require.Equal(t, 100, taken)
		require.Equal(t, 4, most, "the workers work at the same time")
		require.LessOrEqual(t, len(distinct), 6)
	})
}

// Whichever step fails, the first failure in item order is the result, and no item after it is taken.
func TestFirstFailureEndsThePipeline(t *testing.T) {
	wrong, later := errors.New("wrong"), errors.New("later")
	at := func(n int, err error) func(*item) error {
		return func(x *item) error {
			if x.number == n {
				return err
			}
			return nil
		}
	}
	crash := func(x *item) error {
		if x.number == 50 {
			panic("crash")
		}
		return nil
	}
	for name, c := range map[string]struct {
		fill       func(*item) error
		work, take func(*item) error
		want       error
		taken      int
	}{
		"fill": {func() func(*item) error {
			fill := upTo(50)
			return func(x *item) error {
				if err := fill(x); err != nil {
					return wrong
				}
				return nil
			}
		}(), at(-1, nil), at(-1, nil), wrong, 50},
		"work":          {upTo(100), at(50, wrong), at(51, later), wrong, 50},
		"take":          {upTo(100), at(51, later), at(50, wrong), wrong, 50},
		"panic of work": {upTo(100), crash, at(-1, nil), ErrPanic, 50},
		"panic of take": {upTo(100), at(-1, nil), crash, ErrPanic, 50},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the bubble demands that all goroutines have ended
				taken := 0
				err := Run(new(Pool[item]), 3, c.fill, c.work, func(x *item) error {
					if err := c.take(x); err != nil {
						return err
					}
					taken++
					return nil
				})
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.taken, taken)
			})
		})
	}
}

func TestPoolKeepsOnlyWhatResetAllows(t *testing.T) {
	reset := 0
	p := Pool[item]{Reset: func(x *item) bool {
		reset++
		return x.number < 10
	}}
	p.Put(&item{number: 11})
	require.Equal(t, 1, reset)
	require.Zero(t, *p.Get(), "it was not kept")
	var none *Pool[item]
	none.Put(&item{number: 1})
	require.Zero(t, *none.Get(), "a nil pool is always empty")
}

type fatal struct{ error }

func (fatal) EndsProcess() {}

func TestPanicThatMustEndTheProcessIsNotContained(t *testing.T) {
	lost := fatal{errors.New("a write was lost")}
	require.PanicsWithValue(t, lost, func() { _ = Contain(func() error { panic(lost) }) })
	require.ErrorIs(t, Contain(func() error { panic(errors.New("another one")) }), ErrPanic)
}
