package main

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

var capacityRow = regexp.MustCompile(`(?m)^\| (\(unknown\)|[a-z0-9]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$`)

// TestCapacityIsTrue compares the runbook's table with the shipped provider table, and its figures with its formula.
func TestCapacityIsTrue(t *testing.T) {
	runbook, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	rows := capacityRow.FindAllStringSubmatch(string(runbook), -1)
	require.Len(t, rows, 8)
	table := engine.DefaultTable()
	for _, row := range rows {
		var n [7]int
		for i := range n {
			n[i], err = strconv.Atoi(row[2+i])
			require.NoError(t, err)
		}
		p := table.Provider(row[1])
		if row[1] == "(unknown)" {
			p = table.Unknown
		}
		require.NotNil(t, p, row[1])
		l := p.Limits
		require.Equal(t, []int{l.RecipientsPerMinute, l.ConnectionsPerMinute, l.RecipientsPerConnection,
			l.RefusalsPerHour}, n[:4], row[1])
		for i, percent := range []int{2, 5, 10} {
			hourly := min(60*n[0], 60*n[1]*n[2], n[3]*100/percent)
			require.Equal(t, hourly*24*8/10, n[4+i], "%s at %d %%", row[1], percent)
		}
	}
}
