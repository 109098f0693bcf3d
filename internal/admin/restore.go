package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator"
	"probity/engine"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/internal/wholefile"
	"probity/store"
	"probity/store/opendb"
)

// restoreCmd makes a data folder from a backup, and checks that it can be served.
type restoreCmd struct {
	Backup       string `arg:"" type:"path" help:"The folder that probity backup wrote, with --jobs or without."`
	Data         string `help:"The data folder to make, which must not hold a store; default: ${default}." default:"./probity-data" type:"path" placeholder:"DIR"`
	AcceptDamage bool   `help:"Restore although files are missing, damaged or added; they and their jobs are named."`
}

// Run compares the backup with its checksums, copies it and opens the copy. A balance that is not the sum of its
// ledger, a file that is missing or damaged, or a backup of a newer program, is reported now and not to the first
// customer. A copy that is refused is removed.
func (c *restoreCmd) Run(ctx context.Context, con *console.IO) error {
	whole, err := isDataFolder(c.Backup)
	if err != nil {
		return err
	}
	state, jobs := filepath.Join(c.Data, "state"), filepath.Join(c.Data, "jobs")
	if exists(state) {
		return fmt.Errorf("%s is there: move the old data folder away first, it may be wanted still", state)
	}
	if whole && exists(jobs) {
		return fmt.Errorf("%s is there: the backup has files of jobs of its own, so move the old data folder away first", jobs)
	}
	remark, err := c.checkSums(ctx)
	if err != nil {
		return err
	}
	var made []string
	if err := os.Mkdir(c.Data, 0o700); err == nil {
		made = append(made, c.Data)
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("nothing was restored: %w; name a folder that can be made", err)
	} else if whole {
		made = append(made, jobs)
	}
	report, err := c.copyAndCheck(ctx, whole, state, jobs)
	if err != nil {
		for _, dir := range made {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	}
	_, err = io.WriteString(con.Err, remark+report)
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// checkSums compares the files of the backup with their checksums. It returns what is to be said of a backup that is
// restored all the same.
func (c *restoreCmd) checkSums(ctx context.Context) (remark string, err error) {
	wrong, err := compareSums(ctx, c.Backup)
	if errors.Is(err, errNoSums) {
		return "this backup has no file " + sumsFile + ": damage to the log of its state store cannot be found\n", nil
	}
	if err != nil || len(wrong) == 0 {
		return "", err
	}
	if !c.AcceptDamage {
		return "", fmt.Errorf("this backup is damaged, restore another, or this one as it is with --accept-damage: %s",
			firstOf(wrong))
	}
	return fmt.Sprintf("warning: this backup is damaged, and accounts, credits or jobs may be lost: %s\n",
		firstOf(wrong)), nil
}

// copyAndCheck copies the backup and returns what is in it. The state store comes last, and gets its name once
// everything was checked: without it, there is no data folder to serve.
func (c *restoreCmd) copyAndCheck(ctx context.Context, whole bool, state, jobs string) (report string, err error) {
	if err := datafolder.RestrictOwn(c.Data); err != nil {
		return "", err
	}
	from := c.Backup
	if whole {
		from = filepath.Join(c.Backup, "state")
		copyJobs := func(part string) error { return copyFolder(ctx, filepath.Join(c.Backup, "jobs"), part) }
		if err := wholefile.WriteFolder(jobs, copyJobs); err != nil {
			return "", err
		}
	}
	err = wholefile.WriteFolder(state, func(part string) error {
		if err := copyFolder(ctx, from, part); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(part, sumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		report, err = c.check(part, whole)
		return err
	})
	return report, err
}

// isDataFolder reports whether a backup has the files of jobs. A folder without a manifest marker is refused: it would
// be opened as a new store.
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
	return false, fmt.Errorf("%s is not a backup, as neither it nor a folder named state in it holds a store: name the folder that probity backup wrote", dir)
}

// check opens the copied store, checks its tables, its ledgers and the files of its jobs, and returns what is in it.
func (c *restoreCmd) check(state string, whole bool) (report string, err error) {
	if err := opendb.CheckTables(vfs.Default, state); err != nil {
		return "", refusal(err)
	}
	s, err := store.OpenAtRest(vfs.Default, state)
	if err != nil {
		return "", refusal(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	users := s.Users()
	for _, u := range users {
		if err := s.CheckLedger(u.ID); err != nil {
			return "", refusal(err)
		}
	}
	files := coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: c.Data, Table: engine.DefaultTable()})
	var jobs, open int
	var damaged []string
	var unread error // of a job's files
	err = s.AllJobs(func(j *store.Job) error {
		jobs++
		if !j.State.Finished() {
			open++
		}
		if !whole {
			return nil
		}
		err := files.CheckFiles(j)
		if errors.Is(err, coordinator.ErrDamaged) {
			damaged = append(damaged, fmt.Sprintf("%s (%v)", j.ID, err))
			return nil
		}
		unread = err
		return err
	})
	if unread != nil {
		return "", unread
	}
	if err != nil {
		return "", refusal(err)
	}
	if len(damaged) > 0 {
		text := fmt.Sprintf("%s of the backup with a file that is missing or damaged: %s",
			console.Counted(len(damaged), "job"), firstOf(damaged))
		if !c.AcceptDamage {
			return "", fmt.Errorf("%s; restore another backup, or this one as it is with --accept-damage", text)
		}
		report = "warning: " + text + "\n"
	}
	return report + fmt.Sprintf("restored to %s: %s with balances that are the sums of their ledgers, %s, %d unfinished: they go on at the next start\n",
		c.Data, console.Counted(len(users), "account"), console.Counted(jobs, "job"), open), nil
}

// firstOf lists what is damaged, but bounds the list.
func firstOf(damaged []string) string {
	const most = 100
	text := strings.Join(damaged[:min(len(damaged), most)], ", ")
	if more := len(damaged) - most; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// refusal is the error of a copy that cannot be served. A damaged store's own error would say that a backup should be
// restored; a full disk, a right that is missing and a newer program are no damage.
func refusal(err error) error {
	if found, damaged := errors.AsType[*store.DamagedError](err); damaged {
		err = found.Cause
	}
	if !opendb.IsDamage(err) {
		return err
	}
	return fmt.Errorf("this backup is damaged, restore another: %w", err)
}
