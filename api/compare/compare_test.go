package compare

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAccountsTakeTurns: comparisons that one account sends at once do not keep another account from the next one.
func TestAccountsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue()
		var order []string // written by the holder of the slot
		compare := func(account string) {
			done, err := q.begin(t.Context(), account)
			if err != nil {
				return
			}
			order = append(order, account)
			time.Sleep(patience/3 + time.Second)
			done()
		}
		for range 16 {
			go compare("ann")
			synctest.Wait()
		}
		go compare("bo")
		time.Sleep(2 * patience)
		synctest.Wait()
		require.Equal(t, []string{"ann", "bo", "ann"}, order, "the others were told to come later")
	})
}
