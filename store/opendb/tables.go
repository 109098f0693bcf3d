package opendb

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckTables verifies the checksums of all tables of a closed database. The tables of a newer program may look
// damaged: they are an ErrNewer.
func CheckTables(fs vfs.FS, dir string) error {
	if err := CheckFormat(fs, dir); err != nil {
		return err
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if err := checkTable(fs, fs.PathJoin(dir, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func checkTable(fs vfs.FS, path string) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	table, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	o := &pebble.Options{}
	o.EnsureDefaults()
	r, err := sstable.NewReader(context.Background(), table, o.MakeReaderOptions())
	if err != nil {
		return errors.Join(err, table.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
