package jobdir

import (
	"errors"
	"io/fs"
	"strings"

	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
)

// LinkAll links the files of all jobs that are not linked yet into a backup. Files that disappear meanwhile belong to a
// job that has expired.
func (d *Dirs) LinkAll(dir string) error {
	disk := d.FS
	ids, err := disk.List(d.Dir)
	if err != nil {
		return jobfiles.Ignore(err, fs.ErrNotExist)
	}
	for _, id := range ids {
		names, err := disk.List(d.Path(id))
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
			continue
		}
		to := disk.PathJoin(dir, FolderName, id)
		if err == nil {
			err = disk.MkdirAll(to, 0o700)
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			if name == FileSpill || name == FileChunks || name == FileCallback ||
				strings.HasSuffix(name, wholefile.New) {
				continue // incomplete, or made again when needed
			}
			err := disk.Link(d.Path(id, name), disk.PathJoin(to, name))
			if err := jobfiles.Ignore(err, fs.ErrExist, fs.ErrNotExist); err != nil {
				return err
			}
		}
	}
	return nil
}
