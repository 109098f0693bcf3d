package progress

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestEachRowIsCountedOnce: rows are added twice, by several goroutines; rows of the log are not in the totals.
func TestEachRowIsCountedOnce(t *testing.T) {
	const rows = 1000
	var totals Totals
	p := New(rows, &totals)
	for row := range uint32(100) {
		p.Replay(row, engine.ReasonNone)
		p.Replay(row, engine.ReasonTimeout)
	}
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "test", 0, time.Time{})
	added := make([]int, 4)
	var all sync.WaitGroup
	for i := range added {
		all.Go(func() {
			for row := range uint32(rows) {
				if p.Add(row, &v) {
					added[i]++
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, rows-100, added[0]+added[1]+added[2]+added[3])
	counts := p.Counts()
	require.EqualValues(t, rows, counts.Answered())
	require.EqualValues(t, 100, counts[engine.ReasonNone])
	require.EqualValues(t, rows-100, counts[engine.ReasonMailboxNotFound])
	require.EqualValues(t, rows-100, totals[v.Status].Load())
}

// TestSampleRate: the rate is that of the last seconds, the ETA that of all the work, and a job without a probed row is
// stalled.
func TestSampleRate(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var totals Totals
	p := New(1000, &totals)
	row, v := uint32(0), engine.VerdictFor(engine.ReasonNone, "test", 0, now)
	add := func(n int) {
		for range n {
			p.Add(row, &v)
			row++
		}
	}
	p.Replay(999, engine.ReasonNone)
	p.Begin(now)
	_, eta, stalled := p.SampleRate(100, now)
	require.Zero(t, eta, "nothing was answered since the start")
	require.False(t, stalled)
	add(50)
	now = now.Add(10 * time.Second)
	rate, eta, _ := p.SampleRate(100, now)
	require.InDelta(t, 5, rate, 1e-9, "the row of the log does not count")
	require.Equal(t, 20*time.Second, eta)
	for range rateWindow / sampleEvery {
		now = now.Add(sampleEvery)
		add(1)
		rate, _, _ = p.SampleRate(100, now)
	}
	require.InDelta(t, 1, rate, 1e-9)
	for range 100 { // and without a look at it
		now = now.Add(sampleEvery)
		add(2)
		p.RecordActivity(now)
	}
	now = now.Add(sampleEvery / 2)
	rate, _, _ = p.SampleRate(100, now)
	require.InDelta(t, 2*16/16.5, rate, 1e-9)
	p.RecordActivity(now)
	_, _, stalled = p.SampleRate(1, now.Add(stallAfter))
	require.False(t, stalled)
	_, _, stalled = p.SampleRate(1, now.Add(stallAfter+1))
	require.True(t, stalled)
}

// TestFailedCountKeepsTheLast, and the first failure in a row is returned.
func TestFailedCountKeepsTheLast(t *testing.T) {
	now, broken := time.Unix(1_700_000_000, 0), errors.New("broken")
	var d Duplicates
	counted := 0
	count := func(n int64, err error) func() (int64, error) {
		return func() (int64, error) { counted++; return n, err }
	}
	for _, step := range []struct {
		after time.Duration
		n     int64
		err   error
		want  int64
		fails error
		calls int
	}{
		{0, 3, nil, 3, nil, 1},
		{RecountEvery - 1, 4, nil, 3, nil, 1},
		{1, 9, broken, 3, broken, 2},
		{RecountEvery, 9, broken, 3, nil, 3},
		{RecountEvery, 5, nil, 5, nil, 4},
		{RecountEvery, 9, broken, 5, broken, 5},
	} {
		now = now.Add(step.after)
		n, err := d.Done(now, RecountEvery, count(step.n, step.err))
		require.Equal(t, step.want, n)
		require.Equal(t, step.fails, err)
		require.Equal(t, step.calls, counted)
	}
}
