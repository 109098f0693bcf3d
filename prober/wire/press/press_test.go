package press

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMeter counts calls that come in some spans.
func TestMeter(t *testing.T) {
	for _, x := range []struct {
		calls []int         // by span
		want  time.Duration // for how long they press from the last of those spans on
	}{
		{[]int{0}, 0},
		{[]int{Least - 1}, 0},
		{[]int{Least}, Hold},
		{[]int{Least, Least - 1}, Hold - Span},
		{[]int{Least - 1, Least - 1, Least - 1}, 0},
		{[]int{Least, 0, Least}, Hold},
	} {
		var m Meter
		now := time.Unix(1_700_000_000, 0)
		for _, n := range x.calls {
			for range n {
				m.Called(now)
			}
			now = now.Add(Span)
		}
		now = now.Add(-Span)
		require.Equal(t, x.want > 0, m.On(now), "%v", x.calls)
		require.Equal(t, x.want > 0, m.On(now.Add(x.want-1)), "%v", x.calls)
		require.False(t, m.On(now.Add(x.want)), "%v", x.calls)
	}
}

// TestLateCall counts calls that come out of order, as they do from many connections: a late one takes nothing back.
func TestLateCall(t *testing.T) {
	for ago := time.Duration(0); ago < late; ago += Span {
		var m Meter
		now := time.Unix(1_700_000_000, 0)
		for range Least {
			m.Called(now)
		}
		m.Called(now.Add(-ago))
		require.True(t, m.On(now.Add(Hold-1)))
		require.True(t, m.On(now.Add(-ago)), "asked for late")
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
	require.False(t, m.On(now.Add(Hold)))
}
