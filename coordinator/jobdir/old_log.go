package jobdir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"

	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
)

// The files of a job's answers until format 4 of the state store: a log of (row, record) in checksummed groups, each chained to
// the one before, and a file of the names that records refer to. They are read once, to migrate them.
const (
	oldFileLog      = "log"
	oldFileNames    = "names"
	oldLogMagic     = "prblog01"
	oldGroupHeader  = 12 // entries uint32, sum uint64
	oldGroupEntries = 32 << 10
	oldEntryBytes   = 4 + jobfiles.RecordBytes
	oldNameAlign    = 8
	oldNameMaxBytes = 8 << 10
)

// MigrateLog makes the log of a job's rows from the files of an older version, if there are any. They lack the due time and source
// of deferred rows, which are therefore sent at once.
func (d *Dirs) MigrateLog(id string) error {
	d.migrating.Lock()
	defer d.migrating.Unlock()
	old, err := d.FS.Open(d.Path(id, oldFileLog))
	if err != nil {
		return jobfiles.Ignore(err, fs.ErrNotExist)
	}
	err = d.ReplaceLog(id, func(w *jobfiles.RowsWriter) error { return d.copyOldLog(w, old, id) })
	if err = errors.Join(err, old.Close()); err != nil {
		return fmt.Errorf("the log of an older program: %w", err)
	}
	if err := d.Remove(id, FileChunks, oldFileNames, oldFileLog); err != nil { // the log last: its presence starts a migration
		return err
	}
	return wholefile.SyncDir(d.FS, d.Path(id))
}

func (d *Dirs) copyOldLog(w *jobfiles.RowsWriter, old vfs.File, id string) (err error) {
	f, err := d.FS.OpenReadWrite(d.Path(id, oldFileNames), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	names := oldNames{f: f, seen: map[uint32]string{}}
	le := binary.LittleEndian
	buf := make([]byte, oldGroupHeader+oldGroupEntries*oldEntryBytes)
	if n, err := old.ReadAt(buf[:len(oldLogMagic)], 0); n < len(oldLogMagic) {
		return jobfiles.Ignore(err, io.EOF) // an empty log
	} else if string(buf[:n]) != oldLogMagic {
		return fmt.Errorf("it does not begin as a log does: %w", jobfiles.ErrDamaged)
	}
	chain := uint64(0)
	for at := int64(len(oldLogMagic)); ; {
		head := buf[:oldGroupHeader]
		if n, err := old.ReadAt(head, at); n < len(head) {
			return jobfiles.Ignore(err, io.EOF)
		}
		n := le.Uint32(head)
		if n == 0 || n > oldGroupEntries {
			return nil
		}
		entries := buf[oldGroupHeader:][:int(n)*oldEntryBytes]
		if got, err := old.ReadAt(entries, at+oldGroupHeader); got < len(entries) {
			return jobfiles.Ignore(err, io.EOF)
		}
		sum := xxh3.HashSeed(entries, chain+uint64(n))
		if sum != le.Uint64(head[4:]) {
			return nil
		}
		at, chain = at+oldGroupHeader+int64(len(entries)), sum
		for ; len(entries) > 0; entries = entries[oldEntryBytes:] {
			row, rec := le.Uint32(entries), (*jobfiles.Record)(entries[4:])
			var texts [4]string
			for i, ref := range rec.Refs() {
				if texts[i], err = names.readName(ref); err != nil {
					return err
				}
			}
			if err := w.AddRecord(row, rec, texts); err != nil {
				return err
			}
		}
	}
}

type oldNames struct {
	f    io.ReaderAt
	seen map[uint32]string
}

const oldNamesKept = 64 << 10

func (on *oldNames) readName(ref uint32) (string, error) {
	if s, ok := on.seen[ref]; ok || ref == 0 {
		return s, nil
	}
	at := int64(ref) * oldNameAlign
	var head [binary.MaxVarintLen16]byte
	got, err := on.f.ReadAt(head[:], at)
	n, used := binary.Uvarint(head[:got])
	if used <= 0 || n > oldNameMaxBytes {
		return "", errors.Join(jobfiles.Ignore(err, io.EOF), fmt.Errorf("names: nothing at %d: %w", at, jobfiles.ErrDamaged))
	}
	text := make([]byte, n)
	if got, err := on.f.ReadAt(text, at+int64(used)); got < len(text) {
		return "", errors.Join(jobfiles.Ignore(err, io.EOF), fmt.Errorf("names: it ends early at %d: %w", at, jobfiles.ErrDamaged))
	}
	if len(on.seen) >= oldNamesKept {
		clear(on.seen)
	}
	on.seen[ref] = string(text)
	return string(text), nil
}
