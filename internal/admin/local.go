package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/api"
	"probity/coordinator"
	"probity/coordinator/erase"
	"probity/coordinator/singles"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/apiclient"
	"probity/internal/datafolder"
	"probity/store"
	"probity/store/cache"
	"probity/store/history"
)

// openLocal opens the store below dir and makes a client of the API on it. It creates no store: a misspelled folder is
// not an empty store.
func openLocal(dir string) (client, error) {
	_, err := os.Stat(stateOf(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return client{}, fmt.Errorf("there is no store in %s: name the folder that serve has as --data", dir)
	case err != nil:
		return client{}, fmt.Errorf("the store in %s: %w", dir, err)
	}
	return openOrMakeLocal(dir)
}

func stateOf(dir string) string { return filepath.Join(dir, "state") }

// openOrMakeLocal is openLocal for a folder that may have no store yet.
func openOrMakeLocal(dir string) (client, error) {
	if err := datafolder.RestrictOwn(dir); err != nil {
		return client{}, err
	}
	var caches erase.Caches // none in a coordinator's folder: its nodes erase the address when it runs
	if _, err := os.Stat(filepath.Join(dir, datafolder.CoordinatorFile)); errors.Is(err, fs.ErrNotExist) {
		caches = stoppedCache(dir)
	} else if err != nil {
		return client{}, err
	}
	known, err := lists.Default()
	if err != nil {
		return client{}, err
	}
	s, err := store.OpenAtRest(vfs.Default, stateOf(dir))
	if err != nil {
		return client{}, adviseOnLock(dir, err)
	}
	from := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		from = u.Username
	}
	// The coordinator does not run: after an erasure, unfinished jobs go on without the address at the next start.
	c := coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: dir, Table: engine.DefaultTable(),
		Lists: known})
	local, err := api.NewLocal(store.AuditActor("command line", from),
		api.Deps{Store: s, Coordinator: c, FS: vfs.Default,
			Scratch: filepath.Join(dir, "scratch"),
			Eraser:  NewEraser(s, c, nil, stoppedCalls{dir, s}.erase, caches, nil)})
	if err != nil {
		return client{}, errors.Join(err, s.Close())
	}
	return client{&apiclient.Client{Base: "http://local", HTTP: &http.Client{Transport: local}}, s.Close}, nil
}

// adviseOnLock adds what to do about a store that another process has open.
func adviseOnLock(dir string, err error) error {
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("a running server holds %s: use --server URL with %s, or stop it first: %w", dir, KeyEnv, err)
	}
	return err
}

// stoppedCalls are the single calls of the stopped server of a data folder. They are opened only to erase an address.
type stoppedCalls struct {
	data  string
	store *store.Store
}

func (s stoppedCalls) erase(ctx context.Context, folded string) error {
	late, err := singles.Open(singles.Config{Store: s.store})
	if err != nil {
		return err
	}
	dir := filepath.Join(s.data, history.Folder)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return late.Erase(folded)
	}
	h, err := history.Open(history.Config{FS: vfs.Default, Dir: dir})
	if err != nil {
		return adviseOnLock(s.data, err)
	}
	return errors.Join(EraseCalls(h, late)(ctx, folded), h.Close())
}

// stoppedCache is the cache of the stopped server of a data folder. It is opened only to erase an address.
type stoppedCache string

// Forget implements erase.Caches.
func (s stoppedCache) Forget(ctx context.Context, folded string,
	done func(string) bool) (map[string]int, []string, error) {
	c, err := cache.Open(cache.Config{FS: vfs.Default, Dir: filepath.Join(string(s), "cache")})
	if err != nil {
		return nil, nil, adviseOnLock(string(s), err)
	}
	found, names, err := LocalCache{c}.Forget(ctx, folded, done)
	return found, names, errors.Join(err, c.Close())
}

// Reachable implements erase.Caches.
func (stoppedCache) Reachable(string) bool { return true }
