package fleet

import (
	"bytes"
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

// The nodes with a share are on disk: a coordinator that starts again waits for each as long as for any node that is missing. Else
// it would give the narrow routes of a node that is slow to attach to another, while that node may still ask.

const (
	knownFile   = "nodes"
	knownFormat = 1
	knownAtMost = 1 << 20 // bytes: cluster.MaxNodes nodes of some identities each
)

// knownList is the nodes with a share, as it is on disk.
type knownList struct {
	Format int         `json:"format"`
	Nodes  []knownNode `json:"nodes"` // by name
}

type knownNode struct {
	Name       string             `json:"name"`
	Listen     string             `json:"listen"`
	Identities []cluster.Identity `json:"identities"`
}

func (n knownNode) equal(other knownNode) bool {
	return n.Name == other.Name && n.Listen == other.Listen && slices.Equal(n.Identities, other.Identities)
}

// knownOf are the nodes of a view that have a share.
func knownOf(view *cluster.View) (nodes []knownNode) {
	for _, n := range view.Nodes {
		if slices.ContainsFunc(view.Shares, func(s cluster.Share) bool { return s.Node == n.Name }) {
			nodes = append(nodes, knownNode{n.Name, n.Listen, n.Identities})
		}
	}
	return nodes
}

// readKnown reads which nodes had a share when the process ended. A list that cannot be read counts as empty, and recall logs it.
func readKnown(disk vfs.FS, dir string) ([]knownNode, error) {
	f, err := disk.Open(disk.PathJoin(dir, knownFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, knownAtMost))
	if err != nil {
		return nil, err
	}
	var k knownList
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	if k.Format != knownFormat {
		return nil, fmt.Errorf("format %d, want %d", k.Format, knownFormat)
	}
	return k.Nodes, nil
}

// writeKnown replaces the file.
func writeKnown(disk vfs.FS, dir string, nodes []knownNode) error {
	text, err := json.Marshal(knownList{knownFormat, nodes})
	if err != nil {
		return err
	}
	path := disk.PathJoin(dir, knownFile)
	if err := wholefile.Write(disk, path+wholefile.New, append(bytes.TrimSpace(text), '\n')); err != nil {
		return err
	}
	if err := disk.Rename(path+wholefile.New, path); err != nil {
		return err
	}
	return wholefile.SyncDir(disk, dir)
}

// recall has the cluster wait for nodes that had a share when the process before this one ended. It reports that there may have
// been some: else no node can be at work for that process.
func (f *Fleet) recall(now time.Time) bool {
	if f.cfg.Disk == nil {
		return true
	}
	nodes, err := readKnown(f.cfg.Disk, f.cfg.Dir)
	if err != nil {
		f.cfg.Log.Error("the nodes of the cluster before this start cannot be read; no job waits for nodes that are slow to attach", "error", err)
		return true
	}
	f.known = nodes
	var ids []shard.Identity
	for _, n := range nodes {
		f.cfg.Cluster.Recall(n.Name, n.Listen, n.Identities, now)
		for _, id := range n.Identities {
			ids = append(ids, shard.Identity{Name: id.Name, Node: n.Name})
		}
	}
	f.spent.recall(ids, now.Add(f.cfg.Table().Scaled(time.Hour)))
	return len(nodes) > 0
}

// knew reports a node that had a share when this process began, or has one.
func (f *Fleet) knew(node string) bool {
	return slices.ContainsFunc(f.known, func(n knownNode) bool { return n.Name == node })
}

// remember writes which nodes have a share, when that has changed.
func (f *Fleet) remember(view *cluster.View) {
	nodes := knownOf(view)
	if f.cfg.Disk == nil || slices.EqualFunc(nodes, f.known, knownNode.equal) {
		return
	}
	if err := writeKnown(f.cfg.Disk, f.cfg.Dir, nodes); err != nil {
		f.cfg.Log.Error("who is in the cluster was not written; it is written at the next change", "error", err)
		return
	}
	f.known = nodes
}
