package jobdir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/zeebo/xxh3"

	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
	"probity/store"
)

// The files of a job's upload until format 4 of the state store: frames, their index, and for each row its first row plus one or
// zero, four bytes each. They are read once, to migrate them.
const (
	oldFileSpool     = "spool"
	oldFileIndex     = "index"
	oldFileDups      = "dups"
	oldFileErasing   = "erasing" // exists while complete .new files replace the old ones
	oldIndexMagic    = "prbidx01"
	oldIndexMaxBytes = 64 << 20
	oldFrameBytes    = 32
	oldFirstsPerRead = 64 << 10 // rows
)

// MigrateUpload makes the upload of a job from the files of an older version, if the job has none, and returns the new record. A
// crash leaves an object that no record names, or unused old files; RemoveOrphans removes both.
func (d *Dirs) MigrateUpload(j *store.Job) (*store.Job, error) {
	if j.Upload != "" {
		return j, nil
	}
	d.migrating.Lock()
	defer d.migrating.Unlock()
	j, err := d.store.Job(j.ID)
	if err != nil || j.Upload != "" {
		return j, err
	}
	if err := d.FinishOldErasure(j.ID); err != nil {
		return nil, err
	}
	name, err := d.rewriteOldUpload(j)
	if err != nil {
		return nil, fmt.Errorf("the upload of an older program: %w", err)
	}
	j, err = d.store.UpdateJob(j.ID, func(j *store.Job) error {
		if j.State == store.JobExpired {
			return fmt.Errorf("upload: %w", fs.ErrNotExist)
		}
		j.Upload = name
		return nil
	})
	if err != nil {
		return nil, err
	}
	return j, d.removeOldUpload(j.ID)
}

// removeOldUpload removes the migrated files, the spool last: its presence means that files are left.
func (d *Dirs) removeOldUpload(id string) error {
	if _, err := d.FS.Stat(d.Path(id, oldFileSpool)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := d.Remove(id, oldFileErasing, oldFileSpool+wholefile.New, oldFileIndex+wholefile.New, oldFileDups, oldFileIndex, oldFileSpool)
	if err != nil {
		return err
	}
	return wholefile.SyncDir(d.FS, d.Path(id))
}

// FinishOldErasure completes an interrupted erasure of an older version if its marker exists: new files replace the old ones, and files
// that were made from the old ones are deleted, to be made again.
func (d *Dirs) FinishOldErasure(id string) error {
	if _, err := d.FS.Stat(d.Path(id, oldFileErasing)); err != nil {
		return jobfiles.Ignore(err, fs.ErrNotExist)
	}
	for _, name := range [...]string{oldFileSpool, oldFileIndex, oldFileNames} {
		path := d.Path(id, name)
		if err := jobfiles.Ignore(d.FS.Rename(path+wholefile.New, path), fs.ErrNotExist); err != nil {
			return err
		}
	}
	if err := d.Remove(id, OldFileResults, FileCallback, FileCallback+wholefile.New); err != nil {
		return err
	}
	return wholefile.SyncDir(d.FS, d.Path(id))
}

// rewriteOldUpload writes an upload from the old files. Each frame is decompressed to verify its zstd checksum.
func (d *Dirs) rewriteOldUpload(j *store.Job) (name string, err error) {
	spool, err := d.FS.Open(d.Path(j.ID, oldFileSpool))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	info, err := spool.Stat()
	if err != nil {
		return "", err
	}
	preamble, frames, err := d.readOldIndex(j.ID)
	if err != nil {
		return "", err
	}
	p, err := d.Create(j.ID, KindUpload)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, p.Abort()) }()
	w := jobfiles.NewUploadWriter(p)
	le := binary.LittleEndian
	var packed, rows []byte
	for i := 0; len(frames) > 0; i, frames = i+1, frames[oldFrameBytes:] {
		f := jobfiles.Frame{Line: int64(le.Uint64(frames[8:])), Raw: le.Uint32(frames[20:]), Rows: le.Uint32(frames[28:])}
		at, size := int64(le.Uint64(frames)), int(le.Uint32(frames[16:]))
		if at < 0 || at > info.Size()-int64(size) {
			return "", fmt.Errorf("spool: %d bytes, and frame %d has %d at %d: %w", info.Size(), i, size, at, jobfiles.ErrDamaged)
		}
		packed = slices.Grow(packed[:0], size)[:size]
		if err := jobfiles.ReadFull(spool, packed, at); err != nil {
			return "", fmt.Errorf("spool: %w", err)
		}
		if rows, err = d.Decoder.DecodeAll(packed, rows[:0]); err != nil || len(rows) != int(f.Raw) {
			return "", fmt.Errorf("spool: frame %d has %d bytes, want %d: %w", i, len(rows), f.Raw, errors.Join(jobfiles.ErrDamaged, err))
		}
		if err := w.AddFrame(packed, f); err != nil {
			return "", err
		}
	}
	if w.Rows() != j.Rows {
		return "", fmt.Errorf("spool: %d rows, want %d: %w", w.Rows(), j.Rows, jobfiles.ErrDamaged)
	}
	if err := d.addOldDuplicates(w, j); err != nil {
		return "", err
	}
	if err := w.Finish(preamble); err != nil {
		return "", err
	}
	return p.Name(), p.Commit()
}

// addOldDuplicates adds the duplicates of an old file. The file has no checksum: there must be as many as were counted, and each
// first row must not be a duplicate itself.
func (d *Dirs) addOldDuplicates(w *jobfiles.UploadWriter, j *store.Job) (err error) {
	if j.Duplicates == 0 {
		return nil
	}
	f, err := d.FS.Open(d.Path(j.ID, oldFileDups))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	repeats := jobfiles.NewRowSet(j.Rows)
	buf := make([]byte, 4*min(oldFirstsPerRead, j.Rows))
	for from := int64(0); from < j.Rows; from += oldFirstsPerRead {
		b := buf[:4*min(oldFirstsPerRead, j.Rows-from)]
		if err := jobfiles.ReadFull(f, b, 4*from); err != nil {
			return fmt.Errorf("duplicates: %w", err)
		}
		for row := uint32(from); len(b) > 0; row, b = row+1, b[4:] {
			first := binary.LittleEndian.Uint32(b)
			if first == 0 {
				continue
			}
			if err := w.AddDuplicate(row, first-1); err != nil {
				return err
			}
			if repeats.Add(row); repeats.Has(first - 1) {
				return fmt.Errorf("duplicates: row %d repeats row %d, which repeats another: %w", row, first-1, jobfiles.ErrDamaged)
			}
		}
	}
	if w.Duplicates() != j.Duplicates {
		return fmt.Errorf("%d duplicates, want %d: %w", w.Duplicates(), j.Duplicates, jobfiles.ErrDamaged)
	}
	return nil
}

// readOldIndex reads an index: magic; length of the preamble uint32, the preamble; count of frames uint32, the frames; xxh3 of all. A frame
// has its offset uint64, line uint64, compressed bytes, bytes, first row, rows uint32 each.
func (d *Dirs) readOldIndex(id string) (preamble, frames []byte, err error) {
	f, err := d.FS.Open(d.Path(id, oldFileIndex))
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > oldIndexMaxBytes {
		err = fmt.Errorf("index of %d bytes: %w", info.Size(), jobfiles.ErrDamaged)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	b := make([]byte, info.Size())
	if err := errors.Join(jobfiles.ReadFull(f, b, 0), f.Close()); err != nil {
		return nil, nil, fmt.Errorf("index: %w", err)
	}
	le, broken := binary.LittleEndian, fmt.Errorf("index: %w", jobfiles.ErrDamaged)
	n := len(b) - 8
	if n < len(oldIndexMagic)+8 || string(b[:len(oldIndexMagic)]) != oldIndexMagic || le.Uint64(b[n:]) != xxh3.Hash(b[:n]) {
		return nil, nil, broken
	}
	b = b[len(oldIndexMagic):n]
	end := 4 + int64(le.Uint32(b))
	if end > int64(len(b)-4) {
		return nil, nil, broken
	}
	preamble, frames = b[4:end], b[end+4:]
	if int64(le.Uint32(b[end:]))*oldFrameBytes != int64(len(frames)) {
		return nil, nil, broken
	}
	return preamble, frames, nil
}
