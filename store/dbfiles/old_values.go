package dbfiles

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// SplitByTable is a pebble.SpanPolicyFunc: the keys of a file begin with one byte. So RemoveOldValues merges as much as
// there is of the tables that it is called for. Without it a file that was just written spans all tables, and
// everything that is stored is merged with it.
func SplitByTable(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	if len(start) == 0 || start[0] == math.MaxUint8 {
		return policy, nil, nil
	}
	return policy, []byte{start[0] + 1}, nil
}

// How long RemoveOldValues waits for table files that are no longer used, which an iterator or a backup can hold.
const (
	removalPoll    = 5 * time.Millisecond
	removalTimeout = 10 * time.Second
)

// RemoveOldValues removes from the disk what records were before their last change, and those that were deleted: the
// log is written into table files and removed, and those that have keys beginning with one of the bytes are merged. dir
// is the folder of the database.
func (f *FS) RemoveOldValues(ctx context.Context, db *pebble.DB, dir string, firstBytes ...byte) error {
	log := f.newestLog.Load()
	if err := db.Flush(); err != nil {
		return err
	}
	if err := f.removeLogs(dir, log); err != nil {
		return err
	}
	before, err := tableFiles(f, dir)
	if err != nil {
		return err
	}
	for _, first := range firstBytes {
		if err := db.Compact(ctx, []byte{first}, []byte{first + 1}, false); err != nil {
			return err
		}
	}
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	for _, level := range levels {
		for i := range level {
			delete(before, level[i].FileNum.String()+tableSuffix)
		}
	}
	return awaitRemoval(ctx, f, dir, before)
}

const tableSuffix = ".sst"

// tableFiles returns the names of the table files in a folder.
func tableFiles(disk vfs.FS, dir string) (map[string]bool, error) {
	names, err := disk.List(dir)
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, tableSuffix) {
			files[name] = true
		}
	}
	return files, nil
}

// awaitRemoval waits until the database has removed table files that it no longer uses.
func awaitRemoval(ctx context.Context, disk vfs.FS, dir string, unused map[string]bool) error {
	for until := time.Now().Add(removalTimeout); ; {
		there, err := tableFiles(disk, dir)
		if err != nil {
			return err
		}
		for name := range unused {
			if !there[name] {
				delete(unused, name)
			}
		}
		if len(unused) == 0 {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d old table files in %s are still in use", len(unused), dir)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(removalPoll):
		}
	}
}
