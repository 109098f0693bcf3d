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

// TestHastenedDecoyIsFirst has the decoys of some places wanted, and one of them hastened: it is first, and the others keep their order.
func TestHastenedDecoyIsFirst(t *testing.T) {
	for i := range 5 {
		g := &group{}
		places := make([]*place, 5)
		for k := range places {
			places[k] = &place{group: g}
			g.wanted.push(places[k])
		}
		g.hasten(places[i])
		g.hasten(&place{group: g}) // stands among those that were cut off
		for _, pl := range append([]*place{places[i]}, slices.Delete(slices.Clone(places), i, i+1)...) {
			require.Same(t, pl, g.wanted.pop())
		}
		require.Zero(t, g.wanted.n)
	}
}
