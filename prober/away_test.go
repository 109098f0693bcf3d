package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
	"probity/prober/wire/press"
)

// crowd asks one row of each of sixty hosts while the processor is busy, so that the turnstile lets four in at one time. The hosts
// take so long over each batch of replies, and all hosts were thought to be as far as the echo says.
func crowd(t *testing.T, slow, echo time.Duration, singles int) (took time.Duration) {
	hosts := map[string]*host{}
	for i := range 60 {
		hosts[fmt.Sprintf("mx%d.a.example", i)] = &host{slow: slow}
	}
	inLab(t, labTable, nil, hosts, func(b *lab) {
		p := b.prober
		p.stile.ready = func() int { return 1000 }
		p.stile.procs, p.stile.limit = 2, 2*leastInside
		for range manyEchoes {
			p.horizon.heard(echo)
		}
		for range singles {
			p.calls.called(time.Now())
		}
		var rows []wire.Row
		for name := range hosts {
			rows = append(rows, b.rows([]string{name}, fmt.Sprintf("ann@d%d.example", len(rows)))...)
			rows[len(rows)-1].Number = uint32(len(rows))
		}
		start := time.Now()
		require.Len(t, b.verify(time.Minute, rows...), len(rows))
		took = time.Since(start)
	})
	return took
}

// TestFarHostsHoldNoTurn: who waits for a reply is outside. Were they inside, four at a time, each for half a second of round trips,
// sixty would take more than seven.
func TestFarHostsHoldNoTurn(t *testing.T) {
	const slow = 100 * time.Millisecond
	require.Less(t, crowd(t, slow, slow, 0), 2*time.Second)
}

// TestNearHostsHoldTheirTurn: sixty at four at a time are fifteen times a banner, a greeting and a transaction.
func TestNearHostsHoldTheirTurn(t *testing.T) {
	const slow = farEcho - time.Millisecond
	require.Greater(t, crowd(t, slow, slow, 0), 15*3*slow)
}

// TestFarHostsHoldTheirTurnWhileSinglesPress: else singles would meet all who come back.
func TestFarHostsHoldTheirTurnWhileSinglesPress(t *testing.T) {
	const slow = 100 * time.Millisecond
	require.Greater(t, crowd(t, slow, slow, 100*press.Least), crowd(t, slow, slow, 0))
}

// TestBusyProcessorMakesNobodyFar hears echoes that are late, but for a few.
func TestBusyProcessorMakesNobodyFar(t *testing.T) {
	const late = 10 * farEcho
	var e echoes
	hear := func(took time.Duration, n int) {
		for range n {
			e.heard(took)
		}
	}
	hear(late, manyEchoes-1)
	require.False(t, e.far(), "too few to tell")
	hear(late, 1)
	require.True(t, e.far())
	for range 10 {
		hear(late, manyEchoes-1)
		hear(farEcho-1, 1)
		require.False(t, e.far(), "one was early")
		hear(late, manyEchoes-1)
		require.False(t, e.far(), "and counts for as many more")
		hear(late, 1)
		require.True(t, e.far())
		hear(farEcho-1, 1)
		require.False(t, e.far(), "at once")
		hear(late, 2*manyEchoes-1)
	}
}

// TestLaneIsAsFarAsItsOwnHosts, where it has heard enough of them; else as all.
func TestLaneIsAsFarAsItsOwnHosts(t *testing.T) {
	l := &lane{prober: &Prober{}}
	for range manyEchoes {
		l.prober.horizon.heard(time.Second)
	}
	require.True(t, l.isFar())
	for range manyEchoes {
		l.reached(time.Millisecond, time.Millisecond, time.Millisecond)
	}
	require.False(t, l.isFar())
	other := &lane{prober: l.prober}
	require.False(t, other.isFar(), "somebody is near")
}

// TestEchoIsARoundTrip of a command, whatever else a connection takes.
func TestEchoIsARoundTrip(t *testing.T) {
	const slow = 100 * time.Millisecond
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": {slow: slow}}, func(b *lab) {
		b.verify(time.Minute, b.rows(mxa, "ann@a.example")...)
		require.Equal(t, slow, b.prober.horizon.echoes.least)
	})
}
