package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/internal/wholefile"
	"probity/store"
)

// restoreCmd makes a data folder from a backup, and checks that it can be served.
type restoreCmd struct {
	Backup string `arg:"" type:"path" help:"The folder that probity backup wrote, with --jobs or without."`
	Data   string `help:"The data folder to make, which must not hold a store; default: ${default}." default:"./probity-data" type:"path" placeholder:"DIR"`
}

// Run copies the backup and opens the copy. A balance that is not the sum of its ledger, or a backup of a newer program, is
// reported now and not to the first customer.
func (c *restoreCmd) Run(con *console.IO) error {
	whole, err := isDataFolder(c.Backup)
	if err != nil {
		return err
	}
	state := filepath.Join(c.Data, "state")
	if _, err := os.Lstat(state); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there: move the old data folder away first, it may be wanted still", state)
	}
	if err := datafolder.RestrictOwn(c.Data); err != nil {
		return err
	}
	from := c.Backup
	if whole {
		from = filepath.Join(c.Backup, "state")
		jobs := filepath.Join(c.Data, "jobs")
		if _, err := os.Lstat(jobs); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there: the backup has files of jobs of its own, so move the old data folder away first", jobs)
		}
		if err := copyWhole(filepath.Join(c.Backup, "jobs"), jobs); err != nil {
			return err
		}
	}
	if err := copyWhole(from, state); err != nil { // last: without it, there is no store
		return err
	}
	return c.checkAndReport(con, state)
}

// isDataFolder reports whether a backup has the files of jobs. A folder without a manifest marker is refused: it would be opened
// as a new store.
func isDataFolder(dir string) (bool, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return false, fmt.Errorf("%s is a file and no backup: name the folder that probity backup wrote", dir)
	}
	for _, candidate := range []struct {
		file  string
		whole bool
	}{{"state/marker.manifest.*", true}, {"marker.manifest.*", false}} {
		found, err := fs.Glob(os.DirFS(dir), candidate.file)
		if err != nil || len(found) > 0 {
			return candidate.whole, err
		}
	}
	return false, fmt.Errorf("%s is no backup, as neither it nor a folder named state in it holds a store: name the folder that probity backup wrote", dir)
}

// checkAndReport opens the restored store, checks its ledgers, and prints what is in it.
func (c *restoreCmd) checkAndReport(con *console.IO, state string) error {
	s, err := store.Open(vfs.Default, state)
	if err != nil {
		return err
	}
	defer s.Close()
	users := s.Users()
	for _, u := range users {
		if err := s.CheckLedger(u.ID); err != nil {
			return fmt.Errorf("this backup is damaged, take another: %w", err)
		}
	}
	var jobs, open int
	if err := s.AllJobs(func(j *store.Job) error {
		if jobs++; !j.State.Finished() {
			open++
		}
		return nil
	}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(con.Err, "restored to %s: %s with balances that are the sums of their ledgers, %s, %d unfinished: they go on at the next start\n",
		c.Data, console.Counted(len(users), "account"), console.Counted(jobs, "job"), open)
	return err
}

// copyWhole copies a folder; the copy is complete or not there.
func copyWhole(from, to string) error {
	return wholefile.WriteFolder(to, func(part string) error { return wholefile.CopyFolder(from, part) })
}
