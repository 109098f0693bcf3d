package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestNodeIsFreshUntilItAsks: a node is fresh until it asks a receiver, and not afterwards, not even after a restart.
func TestNodeIsFreshUntilItAsks(t *testing.T) {
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.one.example": {}}, func(b *testNode) {
		require.True(t, b.prober.Fresh())
		b.verify(time.Minute, b.rows([]string{"mx.one.example"}, "ann@one.example")...)
		require.False(t, b.prober.Fresh())
		b.stop()
		b.start(nil)
		time.Sleep(time.Minute)
		require.False(t, b.prober.Fresh(), "it may have asked before its start")
	})
}
