package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShippedTableParses(t *testing.T) {
	_, err := ParseTable(shippedTable)
	require.NoError(t, err)
}
