package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFreshUntilItAsks: a node says that it has asked no receiver until it does, and never again, not after a restart either.
func TestFreshUntilItAsks(t *testing.T) {
	inLab(t, labTable, nil, map[string]*host{"mx.one.example": {}}, func(b *lab) {
		require.True(t, b.prober.Fresh())
		b.verify(time.Minute, b.rows([]string{"mx.one.example"}, "ann@one.example")...)
		require.False(t, b.prober.Fresh())
		b.stop()
		b.start(nil)
		time.Sleep(time.Minute)
		require.False(t, b.prober.Fresh(), "it may have asked before its start")
	})
}
