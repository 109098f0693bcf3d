package ring

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRing compares a ring with a slice: Push adds at the end, MoveLastToFront makes the newest the oldest.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Ring[int]
		var want []int
		for i := range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				r.Push(i)
				want = append(want, i)
			case 2:
				r.Push(i)
				r.MoveLastToFront()
				want = slices.Insert(want, 0, i)
			case 3:
				v := rapid.IntRange(0, i).Draw(t, "removed")
				Remove(&r, v)
				want = slices.DeleteFunc(want, func(w int) bool { return w == v })
			default:
				if len(want) > 0 {
					require.Equal(t, want[0], r.Peek())
					require.Equal(t, want[0], r.Pop())
					want = want[1:]
				}
			}
			require.Equal(t, len(want), r.Len())
		}
	})
}
