package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/cluster"
	"probity/coordinator/shard"
	"probity/internal/wholefile"
)

// The nodes with a share are on disk: after a restart the coordinator waits for each as long as for any missing node.
// Otherwise it would give another node the narrow routes of one that is slow to attach and may still be probing them.

const (
	nodesFile    = "nodes"
	nodesFormat  = 1
	maxNodesFile = 16 << 20 // bytes: cluster.MaxNodes nodes of some identities each
)

// rememberedNodes is the file of the nodes with a share.
type rememberedNodes struct {
	Format int              `json:"format"`
	Nodes  []rememberedNode `json:"nodes"` // by name
}

type rememberedNode struct {
	Name       string             `json:"name"`
	Listen     string             `json:"listen"`
	Identities []cluster.Identity `json:"identities"`
}

func (n rememberedNode) equal(other rememberedNode) bool {
	return n.Name == other.Name && n.Listen == other.Listen && slices.Equal(n.Identities, other.Identities)
}

// nodesWithShare are the nodes of a view that have a share.
func nodesWithShare(view *cluster.View) (nodes []rememberedNode) {
	has := map[string]bool{}
	for i := range view.Shares {
		has[view.Shares[i].Node] = true
	}
	for _, n := range view.Nodes {
		if has[n.Name] {
			nodes = append(nodes, rememberedNode{n.Name, n.Listen, n.Identities})
		}
	}
	return nodes
}

// readNodes reads which nodes had a share when the process before this one ended.
func readNodes(disk vfs.FS, dir string) ([]rememberedNode, error) {
	f, err := disk.Open(disk.PathJoin(dir, nodesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNodesFile))
	if err != nil {
		return nil, err
	}
	var k rememberedNodes
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	if k.Format != nodesFormat {
		return nil, fmt.Errorf("format %d, want %d", k.Format, nodesFormat)
	}
	return k.Nodes, nil
}

// writeNodes replaces the file.
func writeNodes(disk vfs.FS, dir string, nodes []rememberedNode) error {
	text, err := json.Marshal(rememberedNodes{nodesFormat, nodes})
	if err != nil {
		return err
	}
	path := disk.PathJoin(dir, nodesFile)
	if err := wholefile.Write(disk, path+wholefile.New, append(text, '\n')); err != nil {
		return err
	}
	if err := disk.Rename(path+wholefile.New, path); err != nil {
		return err
	}
	return wholefile.SyncDir(disk, dir)
}

// restoreNodes makes the cluster wait for nodes that had a share when the process before this one ended. It reports
// whether there may have been any; a file that cannot be read counts as empty, but returns true.
func (f *Fleet) restoreNodes(now time.Time) bool {
	if f.cfg.Disk == nil {
		return true
	}
	nodes, err := readNodes(f.cfg.Disk, f.cfg.Dir)
	if err != nil {
		f.cfg.Log.Error("membership unreadable; jobs do not wait for absent nodes", "error", err)
		return true
	}
	f.remembered = nodes
	var ids []shard.Identity
	for _, n := range nodes {
		f.cfg.Cluster.Restore(n.Name, n.Listen, n.Identities, now)
		for _, id := range n.Identities {
			ids = append(ids, shard.Identity{Name: id.Name, Node: n.Name})
		}
	}
	f.usage.restore(ids, now.Add(f.cfg.Table().Scaled(time.Hour)))
	return len(nodes) > 0
}
