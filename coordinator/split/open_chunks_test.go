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

// TestIdleSchedulerIsRefilled: which rows are sent though their chunk is not full. Rows of few hosts once few of their
// class are in flight, rows of many hosts a second later, and so are few rows where there are many sources, all later
// while the scheduler has work of other jobs, none while it has ready chunks.
func TestIdleSchedulerIsRefilled(t *testing.T) {
	few, many := openChunkOf(200, 2), openChunkOf(200, 100)
	tests := []struct {
		name string
		rows *openChunk
		has  dispatch.Backlog
		idle bool          // the scheduler
		full int           // rows of a chunk
		want time.Duration // never, for -1
	}{
		{"few hosts", few, dispatch.BacklogLow, true, 4096, 0},
		{"few hosts, others have work", few, dispatch.BacklogLow, false, 4096, bufferWait},
		{"few hosts, under way", few, dispatch.BacklogUnanswered, true, 4096, bufferWaitBusy},
		{"few hosts, waiting", few, dispatch.BacklogReady, true, 4096, -1},
		{"many hosts", many, dispatch.BacklogLow, true, 4096, bufferWait},
		{"many hosts, others have work", many, dispatch.BacklogLow, false, 4096, bufferWaitBusy},
		{"many hosts, under way", many, dispatch.BacklogUnanswered, true, 4096, bufferWaitBusy},
		{"many hosts, waiting", many, dispatch.BacklogReady, true, 4096, -1},
		{"few hosts, few rows", few, dispatch.BacklogLow, true, 8192, bufferWait},
		{"few hosts, enough rows", openChunkOf(8192, 2), dispatch.BacklogLow, true, 8192, 0},
		{"few hosts, few rows, others have work", few, dispatch.BacklogLow, false, 8192, bufferWaitBusy},
		{"many hosts, few rows", many, dispatch.BacklogLow, true, 8192, bufferWaitBusy},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.want < 0 {
				require.False(t, test.rows.isDue(test.has, test.idle, test.full, test.rows.since.Add(time.Hour)))
				return
			}
			require.True(t, test.rows.isDue(test.has, test.idle, test.full, test.rows.since.Add(test.want)))
			if test.want > 0 {
				require.False(t, test.rows.isDue(test.has, test.idle, test.full, test.rows.since.Add(test.want-1)))
			}
		})
	}
}
