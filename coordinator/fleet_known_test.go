package coordinator

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/cluster"
)

func TestWhoHadAShareIsOnDisk(t *testing.T) {
	disk := vfs.NewMem()
	require.NoError(t, disk.MkdirAll("hub", 0o700))
	none, err := readKnown(disk, "hub")
	require.NoError(t, err)
	require.Empty(t, none)
	id := cluster.Identity{Name: "192.0.2.1", Local: "192.0.2.1", EHLO: "mx.us.example"}
	view := &cluster.View{Nodes: []cluster.Node{{Name: "gone", Listen: "192.0.2.8:7947"}, {Name: "p1", Listen: "192.0.2.9:7947", Identities: []cluster.Identity{id}}},
		Shares: []cluster.Share{{Identity: id, Node: "p1"}}}
	want := []knownNode{{"p1", "192.0.2.9:7947", []cluster.Identity{id}}}
	require.Equal(t, want, knownOf(view))
	require.NoError(t, writeKnown(disk, "hub", want))
	got, err := readKnown(disk, "hub")
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, text := range []string{"", "{", `{"format":2,"nodes":[]}`} {
		require.NoError(t, writeWhole(disk, "hub/"+knownFile, []byte(text)))
		_, err := readKnown(disk, "hub")
		require.Error(t, err, text)
	}
}
