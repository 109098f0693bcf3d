package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/memberlist"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"probity/coordinator/cluster"
	"probity/engine"
	"probity/internal/wholefile"
	"probity/prober/wire"
)

func TestNodesWithAShareAreSaved(t *testing.T) {
	disk := vfs.NewMem()
	require.NoError(t, disk.MkdirAll("hub", 0o700))
	none, err := readNodes(disk, "hub")
	require.NoError(t, err)
	require.Empty(t, none)
	id := cluster.Identity{Name: "192.0.2.1", Local: "192.0.2.1", EHLO: "mx.us.example"}
	view := &cluster.View{Nodes: []cluster.Node{{Name: "gone", Listen: "192.0.2.8:7947"},
		{Name: "p1", Listen: "192.0.2.9:7947", Identities: []cluster.Identity{id}}},
		Shares: []cluster.Share{{Identity: id, Node: "p1"}}}
	want := []rememberedNode{{"p1", "192.0.2.9:7947", []cluster.Identity{id}}}
	require.Equal(t, want, nodesWithShare(view))
	require.NoError(t, writeNodes(disk, "hub", want))
	got, err := readNodes(disk, "hub")
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, text := range []string{"", "{", `{"format":2,"nodes":[]}`} {
		require.NoError(t, wholefile.Write(disk, "hub/"+nodesFile, []byte(text)))
		_, err := readNodes(disk, "hub")
		require.Error(t, err, text)
	}
}

// A node that had a share when the process before this one ended may have used the per-minute budgets of its routes.
func TestRememberedNodesCountAsUsed(t *testing.T) {
	gossip, err := cluster.New(cluster.Config{Name: "hub", Role: cluster.RoleCoordinator,
		Keys:      [][]byte{make([]byte, 16)},
		Transport: new(memberlist.MockNetwork).NewTransport("hub")})
	require.NoError(t, err)
	f := &Fleet{members: map[string]*member{}, remembered: []rememberedNode{{Name: "old"}},
		cfg: Config{Cluster: gossip, Coordinator: wire.Coordinator{ID: "hub", Term: 2},
			Table: func() *engine.Table { return nil }, Log: slog.New(slog.DiscardHandler),
			Dial:        func(ctx context.Context, _ string) (net.Conn, error) { return nil, ctx.Err() },
			Credentials: func(string) credentials.TransportCredentials { return insecure.NewCredentials() }}}
	over, end := context.WithCancel(t.Context())
	end()
	var streams sync.WaitGroup
	defer streams.Wait()
	view := &cluster.View{Nodes: []cluster.Node{{Name: "old", Listen: "192.0.2.8:7947"},
		{Name: "new", Listen: "192.0.2.8:7947"}}}
	require.NoError(t, f.updateMembers(over, view, &streams))
	require.NotZero(t, f.members["old"].lastWork.Load())
	require.Zero(t, f.members["new"].lastWork.Load())
}

// TestTheLargestFleetIsRemembered: the file of as many nodes as a cluster may have is read whole.
func TestTheLargestFleetIsRemembered(t *testing.T) {
	disk, view := vfs.NewMem(), &cluster.View{}
	for i := range cluster.MaxNodes {
		n := cluster.Node{Name: fmt.Sprintf("prober-%d.data-centre.example", i),
			Listen: "[2001:db8:1111:2222:3333:4444:5555:6666]:7947"}
		for j := range 4 {
			ip := fmt.Sprintf("2001:db8:1111:2222:3333:4444:%x:%x", i+0x1000, j+0x1000)
			id := cluster.Identity{Name: ip, Local: ip, Public: ip,
				EHLO: fmt.Sprintf("mx%d.prober-%d.data-centre.example", j, i)}
			n.Identities = append(n.Identities, id)
			view.Shares = append(view.Shares, cluster.Share{Identity: id, Node: n.Name})
		}
		view.Nodes = append(view.Nodes, n)
	}
	want := nodesWithShare(view)
	require.Len(t, want, cluster.MaxNodes)
	require.NoError(t, writeNodes(disk, "", want))
	got, err := readNodes(disk, "")
	require.NoError(t, err)
	require.Equal(t, want, got)
}
