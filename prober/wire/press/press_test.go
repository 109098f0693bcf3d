package press

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(1_700_000_000, 0)

// TestMeterDetectsLoad counts calls that come in groups, and looks how long they press.
func TestMeterDetectsLoad(t *testing.T) {
	for _, x := range []struct {
		name   string
		groups int
		of     int           // calls that come together
		every  time.Duration // one group
		during time.Duration // they press, from a group on
		after  time.Duration // and from the last one on
	}{
		{"none", 0, 0, 0, 0, 0},
		{"a few", 1, Least - 1, 0, 0, 0},
		{"some together", 1, Least, 0, 0, Least * worth},
		{"some together, now and then", 20, Least, Least * worth, Least * worth, Least * worth},
		{"many together", 1, 10_000, 0, 0, Longest},
		{"as many as are not yet many", 10_000, 1, worth, 0, 0},
		{"a few together, as often", 1000, Least - 1, (Least - 1) * worth, 0, 0},
		{"more than that", 10_000, 2, worth, worth, Longest},
	} {
		var m Meter
		now := start
		for n := range x.groups {
			for range x.of {
				m.Called(now)
			}
			if n >= Least { // by then it is known
				require.Equal(t, x.during > 0, m.On(now), x.name)
				require.Equal(t, x.during > 0, m.On(now.Add(x.during-1)), x.name)
			}
			now = now.Add(x.every)
		}
		now = now.Add(-x.every)
		require.Equal(t, x.after > 0, m.On(now), x.name)
		require.Equal(t, x.after > 0, m.On(now.Add(x.after-1)), x.name)
		require.False(t, m.On(now.Add(x.after)), x.name)
	}
}

// TestLateCallsCount counts calls that come out of order, as they do from many connections: a late one counts, and
// takes nothing back.
func TestLateCallsCount(t *testing.T) {
	for ago := time.Duration(0); ago < late; ago += worth {
		var few, enough Meter
		for range Least - 1 {
			few.Called(start)
			enough.Called(start)
		}
		require.False(t, few.On(start))
		enough.Called(start)
		enough.Called(start.Add(-ago))
		require.True(t, enough.On(start.Add(Least*worth-1)))
		require.True(t, enough.On(start.Add(-ago)), "asked for late")
		few.Called(start.Add(-ago))
		require.True(t, few.On(start.Add(Least*worth-1)))
		var two Meter
		two.Called(start)
		two.Called(start.Add(-ago))
		require.False(t, two.On(start), "its lateness does not count")
	}
}

// TestMeterSurvivesAClockSetBack counts on after it.
func TestMeterSurvivesAClockSetBack(t *testing.T) {
	var m Meter
	for range Least {
		m.Called(start)
	}
	now := start.Add(-time.Hour)
	require.False(t, m.On(now))
	for range Least - 1 {
		m.Called(now)
	}
	require.False(t, m.On(now))
	m.Called(now)
	require.True(t, m.On(now))
	require.False(t, m.On(now.Add(Least*worth)))
}
