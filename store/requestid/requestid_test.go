package requestid

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIDsAscendAndAreUnique(t *testing.T) {
	s, other := New(), New()
	last := s.Next()
	require.Len(t, last, 24)
	for range 300 { // past the end of a byte of the number
		next := s.Next()
		require.Less(t, last, next)
		require.NotEqual(t, next[:2*processBytes], other.Next()[:2*processBytes])
		last = next
	}
}
