package prober

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRing holds a ring beside a slice: what is pushed comes last, what is unshifted comes first.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring[int]
		var want []int
		for i := range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				r.push(i)
				want = append(want, i)
			case 2:
				r.unshift(i)
				want = slices.Insert(want, 0, i)
			default:
				if len(want) > 0 {
					require.Equal(t, want[0], r.peek())
					require.Equal(t, want[0], r.pop())
					want = want[1:]
				}
			}
			require.Equal(t, len(want), r.n)
		}
	})
}

// wanting makes a place of a group for whose decoy a row of a priority waits.
func wanting(l *lane, g *group, who priority) *place {
	pl := &place{group: g}
	l.awaitDecoy(&probe{who: who}, pl)
	return pl
}

// inTurn empties the ring of wanted decoys in the order in which they are asked.
func (g *group) inTurn() (all []*place) {
	for _, who := range [...]priority{single, short, bulk} {
		for r := &g.wanted[who]; r.n > 0; {
			all = append(all, r.pop())
		}
	}
	return all
}

// TestDecoysTakeTurnsByPriority: a decoy that a single waits for comes first, that of a short job next, whatever stands before it,
// and each priority's are counted.
func TestDecoysTakeTurnsByPriority(t *testing.T) {
	l, g := &lane{}, &group{}
	for _, who := range [...]priority{bulk, short, bulk, short, single, bulk, short} {
		wanting(l, g, who)
	}
	require.Equal(t, 1, g.decoysFor(single))
	require.Equal(t, 3, g.decoysFor(short))
	var order []priority
	for _, pl := range g.inTurn() {
		order = append(order, pl.decoy.who())
	}
	require.Equal(t, []priority{single, short, short, short, bulk, bulk, bulk}, order)
}

// TestHastenedDecoyIsFirst has the decoys of some places wanted, and one of them hastened: it is before those of its old priority, and
// behind those of its new one; the others keep their order. Who waits for it already hastens nothing.
func TestHastenedDecoyIsFirst(t *testing.T) {
	for i := range 5 {
		l, g := &lane{}, &group{}
		first := wanting(l, g, single)
		places := make([]*place, 5)
		for k := range places {
			places[k] = wanting(l, g, bulk)
		}
		cut := &place{group: g, decoy: decoy{tries: 1}} // stands among those that were cut off
		l.awaitDecoy(&probe{who: bulk}, cut)
		for range 2 {
			l.awaitDecoy(&probe{who: short}, places[i])
			l.awaitDecoy(&probe{who: short}, cut)
			l.awaitDecoy(&probe{who: short}, first)
		}
		require.Equal(t, 2, g.decoysFor(short))
		want := append([]*place{first, places[i]}, slices.Delete(slices.Clone(places), i, i+1)...)
		for k, pl := range g.inTurn() {
			require.Same(t, want[k], pl)
			want[k] = nil
		}
		require.Equal(t, make([]*place, 6), want)
	}
}
