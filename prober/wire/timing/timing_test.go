package timing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTimeoutsAreOrdered: a change of one of them shows here what rests on it.
func TestTimeoutsAreOrdered(t *testing.T) {
	require.Less(t, 3*PingEvery, Lease, "two lost pings end no lease")
	require.Less(t, Lease, NodeTimeout, "a node has stopped asking before it is given up")
	require.Less(t, NodeTimeout, KeepShare, "a node that is given up finds its share when it is back")
	require.LessOrEqual(t, Lease+CloseTimeout, NodeTimeout+Handover, "who was cut off has hung up before another asks")
	require.LessOrEqual(t, CloseTimeout, Handover, "who hands a route over has hung up before another asks")
	require.LessOrEqual(t, Lease, StartDelay+Handover,
		"a former coordinator's node has stopped before a route that is new to us is asked")
	require.Less(t, MaxRetryWait, StartDelay, "each node has been tried again before routes are given away")
}
