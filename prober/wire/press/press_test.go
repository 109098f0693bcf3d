package press

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMeter counts calls that come in some spans, and asks in later ones whether they press.
func TestMeter(t *testing.T) {
	for _, x := range []struct {
		calls []int // by span
		want  []bool
	}{
		{[]int{0}, []bool{false, false}},
		{[]int{Least - 1}, []bool{false, false}},
		{[]int{Least}, []bool{true, true, false}},
		{[]int{Least, 1}, []bool{true, true, false}},
		{[]int{Least, 0, 1}, []bool{true, true, false, false}},
		{[]int{Least - 1, Least - 1}, []bool{false, false, false}},
		{[]int{1, Least, 0, 0}, []bool{false, true, true, false}},
	} {
		var m Meter
		now := time.Unix(1_700_000_000, 0)
		for span, want := range x.want {
			if span < len(x.calls) {
				for range x.calls[span] {
					m.Called(now)
				}
			}
			require.Equal(t, want, m.On(now), "%v, span %d", x.calls, span)
			now = now.Add(Span)
		}
	}
}

// TestLateCall counts calls that come out of order, as they do from many connections: a late one takes nothing back.
func TestLateCall(t *testing.T) {
	for spans := range time.Duration(late) {
		var m Meter
		now := time.Unix(1_700_000_000, 0)
		for range Least {
			m.Called(now)
		}
		m.Called(now.Add(Span))
		m.Called(now.Add(-spans * Span))
		require.True(t, m.On(now.Add(Span)))
		require.True(t, m.On(now.Add(-spans*Span)), "asked for late")
	}
}

// TestClockSetBack counts on after it.
func TestClockSetBack(t *testing.T) {
	var m Meter
	now := time.Unix(1_700_000_000, 0)
	for range Least {
		m.Called(now)
	}
	now = now.Add(-time.Hour)
	require.False(t, m.On(now))
	for range Least {
		m.Called(now)
	}
	require.True(t, m.On(now))
	require.False(t, m.On(now.Add(2*Span)))
}
