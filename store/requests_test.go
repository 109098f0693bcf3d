package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestNamesAscendAndAreUnique(t *testing.T) {
	var r, other requests
	r.newProcess()
	other.newProcess()
	last := r.next()
	require.Len(t, last, 24)
	for range 300 { // past the end of a byte of the number
		next := r.next()
		require.Less(t, last, next)
		require.NotEqual(t, next[:2*processBytes], other.next()[:2*processBytes])
		last = next
	}
}
