package erase

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
	"probity/store"
)

// pendingErasuresFile is where an older version kept the pending erasures of absent nodes; now the state store has them.
const (
	pendingErasuresFile = "erasures"
	maxPendingErasures  = 10_000
)

// pendingErasure is one address that one node still has to erase.
type pendingErasure struct {
	at     time.Time
	node   string
	folded string
}

// Adopt moves the pending erasures of an earlier version from its file into the store.
func Adopt(s *store.Store, disk vfs.FS, dir string, now time.Time) error {
	path := disk.PathJoin(dir, pendingErasuresFile)
	f, err := disk.Open(path)
	if err != nil {
		return jobfiles.Ignore(err, fs.ErrNotExist)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxPendingErasures*1024))
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	for _, d := range readPendingErasures(string(text), now) {
		e, err := s.RequestErasure(d.folded, "an update", d.at)
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
	return errors.Join(disk.Remove(path), wholefile.SyncDir(disk, dir))
}

// readPendingErasures reads lines of time, node and address. It skips expired and malformed ones.
func readPendingErasures(text string, now time.Time) (list []pendingErasure) {
	for line := range strings.Lines(text) {
		at, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		node, folded, ok2 := strings.Cut(rest, " ")
		n, err := strconv.ParseInt(at, 10, 64)
		d := pendingErasure{time.Unix(n, 0), node, folded}
		if ok && ok2 && err == nil && folded != "" && now.Sub(d.at) < cacheLife && len(list) < maxPendingErasures {
			list = append(list, d)
		}
	}
	return list
}
