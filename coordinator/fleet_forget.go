package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// An erasure reaches the caches of all nodes that are known: those that can be reached at once, the others when they are back. What
// is owed to them is on disk before Forget returns, and goes when each was told, or when no cache can hold the verdict any more. A
// node that the cluster had forgotten before the erasure, after an hour's absence, is not known: erase again when it is back.

// The bounds of what is owed.
const (
	maxOwed  = 10_000
	owedLife = 31 * 24 * time.Hour // of the longest cached verdict
	owedFile = "erasures"
)

// errOwed is returned when too many erasures wait for nodes that are away.
var errOwed = fmt.Errorf("%d erasures wait for nodes that are away: bring them back, or let the cluster forget them for an hour", maxOwed)

// owed is what nodes that are away have yet to forget. Without a disk it lasts as long as the process.
type owed struct {
	disk vfs.FS // nil for none
	path string

	mu   sync.Mutex // guards list, and the file
	list []debt
}

// debt is one address that one node has yet to forget.
type debt struct {
	at     time.Time
	node   string
	folded string
}

// openOwed reads what was owed when the process ended.
func openOwed(disk vfs.FS, dir string, now time.Time) (*owed, error) {
	o := &owed{disk: disk}
	if disk == nil {
		return o, nil
	}
	o.path = disk.PathJoin(dir, owedFile)
	f, err := disk.Open(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxOwed*1024))
	if err != nil {
		return nil, err
	}
	o.list = readOwed(string(text), now)
	return o, nil
}

// readOwed reads lines of time, node and address; those that are over, or no such lines, are passed over.
func readOwed(text string, now time.Time) (list []debt) {
	for line := range strings.Lines(text) {
		at, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		node, folded, ok2 := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(at, 10, 64)
		d := debt{time.Unix(n, 0), node, folded}
		if ok && ok2 && err == nil && folded != "" && now.Sub(d.at) < owedLife && len(list) < maxOwed {
			list = append(list, d)
		}
	}
	return list
}

// change replaces the list, on disk first.
func (o *owed) change(make func([]debt) []debt) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := make(slices.Clone(o.list))
	if len(next) > maxOwed {
		return errOwed
	}
	if o.disk != nil {
		var b bytes.Buffer
		for _, d := range next {
			fmt.Fprintf(&b, "%d %s %s\n", d.at.Unix(), d.node, d.folded)
		}
		err := writeWhole(o.disk, o.path+fileNew, b.Bytes())
		if err == nil {
			err = o.disk.Rename(o.path+fileNew, o.path)
		}
		if err == nil {
			err = syncDir(o.disk, o.disk.PathDir(o.path))
		}
		if err != nil {
			return fmt.Errorf("what nodes have yet to forget: %w", err)
		}
	}
	o.list = next
	return nil
}

// of is what a node has yet to forget.
func (o *owed) of(node string) (some []debt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.list {
		if d.node == node {
			some = append(some, d)
		}
	}
	return some
}

// Forget has all nodes delete what they keep of an address, given in folded form: those that are away when they are back. It tells
// how many had a verdict, and who is away.
func (f *Fleet) Forget(ctx context.Context, folded string) (cached int, away []string, err error) {
	now := time.Now()
	away = f.each(ctx, func(ctx context.Context, m *member, put func(func())) error {
		was, err := m.client.Forget(ctx, folded)
		if was {
			put(func() { cached++ })
		}
		return err
	})
	for _, n := range f.roster.Load().view.Nodes {
		if f.member(n.Name) == nil && !slices.Contains(away, n.Name) {
			away = append(away, n.Name)
		}
	}
	if len(away) == 0 {
		return cached, nil, nil
	}
	err = f.owed.change(func(list []debt) []debt {
		for _, node := range away {
			if !slices.ContainsFunc(list, func(d debt) bool { return d.node == node && d.folded == folded }) {
				list = append(list, debt{now, node, folded})
			}
		}
		return list
	})
	return cached, away, err
}

// settleOwed tells nodes that are back what they have yet to forget.
func (f *Fleet) settleOwed(ctx context.Context) {
	now := time.Now()
	for _, m := range f.all() {
		some := f.owed.of(m.name)
		if len(some) == 0 || !m.client.State().Live {
			continue
		}
		var done []debt
		for _, d := range some {
			ctx, cancel := context.WithTimeout(ctx, sightPatience)
			_, err := m.client.Forget(ctx, d.folded)
			cancel()
			if err != nil && now.Sub(d.at) < owedLife {
				break // it has gone again: later
			}
			done = append(done, d)
		}
		if len(done) == 0 {
			continue
		}
		if err := f.owed.change(func(list []debt) []debt {
			return slices.DeleteFunc(list, func(d debt) bool { return slices.Contains(done, d) })
		}); err != nil {
			f.cfg.Log.Error("erasures that a node was told of are told again", "node", m.name, "error", err)
		}
	}
}
