package coordinator

import (
	"context"
	"fmt"

	"probity/internal/pipeline"
)

// Backup makes a consistent copy of the data folder: state, which checkpoint writes at the path it is given, and the
// files of jobs as hard links. No job waits for it. The folder must be on the same disk; the caller copies the files
// away and then removes it. Later appends show in the links too.
//
// The links stay consistent with the checkpoint. A job's files only grow, or appear under a new name once they are
// whole. A growing file is read after the checkpoint, so it has at least what the checkpoint knows: the restored job
// looks as if the process had died a little later. Files that appear with the checkpoint are linked after it. Only an
// erasure reuses old names for other files; it waits for the backup.
func (c *Coordinator) Backup(ctx context.Context, dir string, checkpoint func(path string) error) error {
	if err := pipeline.Acquire(ctx, c.eraseSlots); err != nil {
		return err
	}
	defer func() { <-c.eraseSlots }()
	disk := c.cfg.FS
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := c.files.LinkAll(dir); err != nil {
		return fmt.Errorf("files of jobs: %w", err)
	}
	if err := checkpoint(disk.PathJoin(dir, "state")); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := c.files.LinkAll(dir); err != nil {
		return fmt.Errorf("files of jobs: %w", err)
	}
	return nil
}
