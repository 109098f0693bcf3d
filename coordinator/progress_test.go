package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// Who waits for budget is counted as waiting: rows that came home, and those behind them of a class that pauses.
func TestProgressCountsAllThatWaitForBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, vfs.NewMem())
		w.prober.how = stubborn
		w.run()
		var list strings.Builder
		list.WriteString("email\n")
		for i := range 20_000 {
			fmt.Fprintf(&list, "a%d@busy.example\n", i)
		}
		j := w.accept(t, list.String())
		time.Sleep(10 * time.Minute)
		s, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.EqualValues(t, 20_000, s.PendingRetry)
		_, err = w.c.Cancel(j.ID)
		require.NoError(t, err)
		w.finish(t, j.ID)
		require.NoError(t, w.close(t))
	})
}
