package prober

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFairShareHolds lets short and long jobs come and go, with transactions of any size. While both want turns, each gets its
// share, to within one transaction.
func TestFairShareHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s fairShare
		had := map[priority]int{}
		for range rapid.IntRange(1, 300).Draw(t, "turns") {
			if rapid.IntRange(0, 50).Draw(t, "pause") == 0 {
				shorts := rapid.Bool().Draw(t, "shorts")
				require.Equal(t, shorts, s.next(false, shorts) == short, "who is alone has the turn")
				clear(had)
				continue
			}
			class := s.next(true, true)
			n := rapid.IntRange(1, maxTransaction).Draw(t, "recipients")
			s.record(class, n)
			had[class] += n
			require.LessOrEqual(t, had[short], shortWeight*had[bulk]+maxTransaction)
			require.LessOrEqual(t, shortWeight*had[bulk], had[short]+shortWeight*maxTransaction)
		}
	})
}
