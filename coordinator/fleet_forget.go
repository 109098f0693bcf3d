package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/store"
)

// An erasure reaches the caches of all nodes that are known: those that can be reached at once, the others when they are back; the
// Eraser keeps who was not told. A node that the cluster had forgotten before the erasure, after an hour's absence, is not known: erase
// again when it is back.

// errNewFleet is returned while it is not known which nodes there are.
var errNewFleet = fmt.Errorf("the coordinator has run for less than %s and does not know its nodes yet", settling)

// Forget implements Caches.
func (f *Fleet) Forget(ctx context.Context, folded string, done func(node string) bool) (reached map[string]int, away []string, err error) {
	f.mu.Lock()
	begun := f.begun
	f.mu.Unlock()
	if begun.IsZero() || time.Since(begun) < settling {
		return nil, nil, errNewFleet
	}
	reached = map[string]int{}
	away = f.each(ctx, func(ctx context.Context, m *member, put func(func())) error {
		if done(m.name) {
			return nil
		}
		was, err := m.client.Forget(ctx, folded)
		if err == nil {
			put(func() { reached[m.name] = map[bool]int{true: 1}[was] })
		}
		return err
	})
	for _, n := range f.roster.Load().view.Nodes {
		if f.member(n.Name) == nil && !slices.Contains(away, n.Name) && !done(n.Name) {
			away = append(away, n.Name)
		}
	}
	return reached, away, nil
}

// Reachable implements Caches.
func (f *Fleet) Reachable(node string) bool {
	m := f.member(node)
	return m != nil && m.client.State().Live
}

// owedFile is where what nodes that are away have yet to forget was kept before the state store did.
const (
	owedFile = "erasures"
	maxOwed  = 10_000
)

// debt is one address that one node has yet to forget.
type debt struct {
	at     time.Time
	node   string
	folded string
}

// AdoptErasures makes wishes in the store of what an earlier version has left in a file of the folder, which goes then.
func AdoptErasures(s *store.Store, disk vfs.FS, dir string, now time.Time) error {
	path := disk.PathJoin(dir, owedFile)
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxOwed*1024))
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	for _, d := range readOwed(string(text), now) {
		e, err := s.AskErasure(d.folded, "an update", d.at)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(e.Caches, func(c store.ErasedCache) bool { return c.Node == d.node }) {
			e.Caches = append(e.Caches, store.ErasedCache{Node: d.node, Until: d.at.Add(cacheLife).UTC()})
		}
		if err := s.SaveErasure(&e); err != nil {
			return err
		}
	}
	return errors.Join(disk.Remove(path), syncDir(disk, dir))
}

// readOwed reads lines of time, node and address; those that are over, or no such lines, are passed over.
func readOwed(text string, now time.Time) (list []debt) {
	for line := range strings.Lines(text) {
		at, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		node, folded, ok2 := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(at, 10, 64)
		d := debt{time.Unix(n, 0), node, folded}
		if ok && ok2 && err == nil && folded != "" && now.Sub(d.at) < cacheLife && len(list) < maxOwed {
			list = append(list, d)
		}
	}
	return list
}
