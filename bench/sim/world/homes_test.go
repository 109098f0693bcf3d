package world

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHomesHaveHostsOfTheirOwn: a list of homes has each domain once, and each has its own host names at shared
// machines.
func TestHomesHaveHostsOfTheirOwn(t *testing.T) {
	w := New(Config{Seed: 3, Homes: 100})
	var out bytes.Buffer
	require.NoError(t, WriteHomes(&out, w, 40))
	rows, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 41)
	hosts, machines := map[string]bool{}, map[string]bool{}
	for _, row := range rows[1:] {
		_, domain, _ := strings.Cut(row[3], "@")
		mailDomain := w.byName[domain]
		require.NotNil(t, mailDomain, domain)
		require.NotEmpty(t, w.Truth(row[3]))
		require.False(t, hosts[mailDomain.MX[0].Host], "a host name for each domain")
		hosts[mailDomain.MX[0].Host] = true
		machines[w.names[mailDomain.MX[0].Host].Addrs[0].String()] = true
	}
	require.Less(t, len(machines), 10)
	require.Greater(t, len(machines), 5)

	plain := New(Config{Seed: 3})
	var a, b bytes.Buffer
	require.NoError(t, WriteList(&a, w, 500, 1))
	require.NoError(t, WriteList(&b, plain, 500, 1))
	require.Equal(t, b.String(), a.String(), "the usual lists have none of them")
}
