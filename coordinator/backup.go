package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"probity/internal/wholefile"
)

// Backup makes a folder that is a data folder of one moment: state, which checkpoint makes at the path it is given, and
// the files of jobs as second names of the same files. No job waits for it. The caller copies the files away and removes
// the folder, which must be on the same disk: what is appended in the meantime shows in the second names too.
//
// That is no harm. A job's files only grow, or come under a new name once they are whole, so that what is linked before
// the checkpoint knows at most less than it, in files that are still growing; and such a file read after the checkpoint
// knows at least as much: to the restored job it looks as if the process had died a little later. Files that came with
// the checkpoint are linked after it. Only an erasure gives old names to other files, and waits.
func (c *Coordinator) Backup(ctx context.Context, dir string, checkpoint func(path string) error) error {
	if err := acquire(ctx, c.eraseSlots); err != nil {
		return err
	}
	defer func() { <-c.eraseSlots }()
	disk := c.cfg.FS
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := c.linkJobs(dir); err != nil {
		return fmt.Errorf("files of jobs: %w", err)
	}
	if err := checkpoint(disk.PathJoin(dir, "state")); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := c.linkJobs(dir); err != nil {
		return fmt.Errorf("files of jobs: %w", err)
	}
	return nil
}

// linkJobs links what is not linked yet.
func (c *Coordinator) linkJobs(dir string) error {
	disk := c.cfg.FS
	ids, err := disk.List(disk.PathJoin(c.cfg.Dir, jobsFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, id := range ids {
		if err == nil {
			err = c.linkJob(id, disk.PathJoin(dir, jobsFolder, id))
		}
	}
	return err
}

// linkJob links the files of one job. One that goes away meanwhile has expired.
func (c *Coordinator) linkJob(id, to string) error {
	disk := c.cfg.FS
	names, err := disk.List(c.dir(id))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil
	}
	if err == nil {
		err = disk.MkdirAll(to, 0o700)
	}
	for _, name := range names {
		if err != nil {
			return err
		}
		if name == fileSpill || name == fileChunks || name == fileCallback || strings.HasSuffix(name, wholefile.New) {
			continue // not whole, or made anew when it is missed
		}
		err = disk.Link(disk.PathJoin(c.dir(id), name), disk.PathJoin(to, name))
		if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}
