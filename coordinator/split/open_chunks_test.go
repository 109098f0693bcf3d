package split

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/chunks"
	"probity/coordinator/dispatch"
	"probity/engine"
)

// openChunkOf makes an open chunk with rows of so many hosts.
func openChunkOf(rows, hosts int) *openChunk {
	table := engine.DefaultTable()
	oc := &openChunk{since: time.Now()}
	rowRoutes := make([]chunks.Route, hosts)
	for i := range rowRoutes {
		rowRoutes[i].Route = table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.tenant.example", i)}})
	}
	for i := range uint32(rows) {
		oc.Add(&chunks.Row{Number: i, Route: &rowRoutes[int(i)%hosts], Mailbox: "user"})
	}
	return oc
}

// TestIdleSchedulerIsRefilled: which rows are sent though their chunk is not full. Rows of few hosts once few of their class are in
// flight, rows of many hosts a second later, both later while the scheduler has work of other jobs, none while it has ready chunks.
func TestIdleSchedulerIsRefilled(t *testing.T) {
	few, many := openChunkOf(200, 2), openChunkOf(200, 100)
	tests := []struct {
		name string
		rows *openChunk
		has  dispatch.Backlog
		idle bool          // the scheduler
		want time.Duration // never, for -1
	}{
		{"few hosts", few, dispatch.BacklogLow, true, 0},
		{"few hosts, others have work", few, dispatch.BacklogLow, false, bufferWait},
		{"few hosts, under way", few, dispatch.BacklogUnanswered, true, bufferWaitBusy},
		{"few hosts, waiting", few, dispatch.BacklogReady, true, -1},
		{"many hosts", many, dispatch.BacklogLow, true, bufferWait},
		{"many hosts, others have work", many, dispatch.BacklogLow, false, bufferWaitBusy},
		{"many hosts, under way", many, dispatch.BacklogUnanswered, true, bufferWaitBusy},
		{"many hosts, waiting", many, dispatch.BacklogReady, true, -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.want < 0 {
				require.False(t, test.rows.isDue(test.has, test.idle, test.rows.since.Add(time.Hour)))
				return
			}
			require.True(t, test.rows.isDue(test.has, test.idle, test.rows.since.Add(test.want)))
			if test.want > 0 {
				require.False(t, test.rows.isDue(test.has, test.idle, test.rows.since.Add(test.want-1)))
			}
		})
	}
}
