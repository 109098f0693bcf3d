package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestFairShareHolds lets short and long jobs come and go, with transactions of any size. While both want turns, each
// gets its share, to within one transaction.
func TestFairShareHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s FairShare
		had := map[Priority]int{}
		for range rapid.IntRange(1, 300).Draw(t, "turns") {
			if rapid.IntRange(0, 50).Draw(t, "pause") == 0 {
				shorts := rapid.Bool().Draw(t, "shorts")
				require.Equal(t, shorts, s.Next(false, shorts) == ShortJob, "who is alone has the turn")
				clear(had)
				continue
			}
			priority := s.Next(true, true)
			n := rapid.IntRange(1, MaxTransaction).Draw(t, "recipients")
			s.Record(priority, n)
			had[priority] += n
			require.LessOrEqual(t, had[ShortJob], shortWeight*had[LongJob]+MaxTransaction)
			require.LessOrEqual(t, shortWeight*had[LongJob], had[ShortJob]+shortWeight*MaxTransaction)
		}
	})
}
