package timing

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTimesStandInOrder: a change of one of them shows here what rests on it.
func TestTimesStandInOrder(t *testing.T) {
	require.Less(t, 3*PingEvery, Lease, "two lost pings end no lease")
	require.Less(t, Lease, Patience, "a node has stopped asking before it is given up")
	require.Less(t, Patience, KeepShare, "a node that is given up finds its share when it is back")
	require.LessOrEqual(t, KeepShare, Keep, "its results are there as long as its share")
	require.LessOrEqual(t, Lease+HangUp, Patience+Handover, "who was cut off has hung up before another asks")
	require.LessOrEqual(t, HangUp, Handover, "who hands a route over has hung up before another asks")
	require.LessOrEqual(t, Lease, Settling+Handover, "a former coordinator's node has stopped before a route that is new to us is asked")
	require.Less(t, Retry, Settling, "each node has been tried again before routes are given away")
}
