package app

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func TestTableNameHasTheNewestDate(t *testing.T) {
	table, err := engine.DefaultTable().Override([]byte("[[rule]]\nid = \"mine\"\nmeaning = \"rate_limited\"\ntext = [\"slow down please\"]\ndate = \"2199-02-03\"\n"))
	require.NoError(t, err)
	hash := table.Hash()
	require.Equal(t, fmt.Sprintf("%x of 2199-02-03", hash), tableName(table))
}
