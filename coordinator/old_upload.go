package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
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

// migrateUpload makes the upload of a job from the files of an older version, if the job has none, and returns the new record. A
// crash leaves an object that no record names, or unused old files; removeOrphans removes both.
func (c *Coordinator) migrateUpload(j *store.Job) (*store.Job, error) {
	if j.Upload != "" {
		return j, nil
	}
	c.migrating.Lock()
	defer c.migrating.Unlock()
	j, err := c.Job(j.ID)
	if err != nil || j.Upload != "" {
		return j, err
	}
	dir := c.dir(j.ID)
	if err := c.finishOldErasure(dir); err != nil {
		return nil, err
	}
	name, err := c.rewriteOldUpload(j, dir)
	if err != nil {
		return nil, fmt.Errorf("the upload of an older program: %w", err)
	}
	j, err = c.updateJob(j.ID, func(j *store.Job) error {
		if j.State == store.JobExpired {
			return fmt.Errorf("upload: %w", fs.ErrNotExist)
		}
		j.Upload = name
		return nil
	})
	if err != nil {
		return nil, err
	}
	return j, c.removeOldUpload(dir)
}

// removeOldUpload removes the migrated files, the spool last: its presence means that files are left.
func (c *Coordinator) removeOldUpload(dir string) error {
	disk := c.cfg.FS
	if _, err := disk.Stat(disk.PathJoin(dir, oldFileSpool)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range [...]string{oldFileErasing, oldFileSpool + wholefile.New, oldFileIndex + wholefile.New, oldFileDups, oldFileIndex, oldFileSpool} {
		if err := removeIfExists(disk, disk.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return wholefile.SyncDir(disk, dir)
}

// finishOldErasure completes an interrupted erasure if its marker exists: new files replace the old ones, and files that were made
// from the old ones are deleted, to be made again.
func (c *Coordinator) finishOldErasure(dir string) error {
	disk := c.cfg.FS
	if _, err := disk.Stat(disk.PathJoin(dir, oldFileErasing)); err != nil {
		return ignoreNotExist(err)
	}
	for _, name := range [...]string{oldFileSpool, oldFileIndex, oldFileNames} {
		path := disk.PathJoin(dir, name)
		if _, err := disk.Stat(path + wholefile.New); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := disk.Rename(path+wholefile.New, path); err != nil {
			return err
		}
	}
	for _, name := range [...]string{oldFileResults, fileCallback, fileCallback + wholefile.New} {
		if err := removeIfExists(disk, disk.PathJoin(dir, name)); err != nil {
			return err
		}
	}
	return wholefile.SyncDir(disk, dir)
}

// finishOldErasures completes, at a start, the interrupted erasures of an older version.
func (c *Coordinator) finishOldErasures() error {
	return c.visitJobs(func(j *store.Job) error {
		if j.Upload != "" || j.State == store.JobExpired {
			return nil
		}
		return c.logUnlessFatal(c.finishOldErasure(c.dir(j.ID)), "an erasure cannot be finished", "job", j.ID)
	})
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// rewriteOldUpload writes an upload from the old files. Each frame is decompressed to verify its zstd checksum.
func (c *Coordinator) rewriteOldUpload(j *store.Job, dir string) (name string, err error) {
	disk := c.cfg.FS
	spool, err := disk.Open(disk.PathJoin(dir, oldFileSpool))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	info, err := spool.Stat()
	if err != nil {
		return "", err
	}
	index, err := readOldIndex(disk, disk.PathJoin(dir, oldFileIndex))
	if err != nil {
		return "", err
	}
	p, err := c.objects.Create(j.ID, kindUpload)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, p.Abort()) }()
	w := jobfiles.NewUploadWriter(p)
	var packed, rows buffer
	for i := range index.frames() {
		f, at, size := index.frame(i)
		if at < 0 || at > info.Size()-int64(size) {
			return "", fmt.Errorf("spool: %d bytes, and frame %d has %d at %d: %w", info.Size(), i, size, at, errDamaged)
		}
		if err := readFull(spool, packed.resize(size), at); err != nil {
			return "", fmt.Errorf("spool: %w", err)
		}
		if rows.b, err = c.decoder.DecodeAll(packed.b, rows.b[:0]); err != nil || len(rows.b) != int(f.Raw) {
			return "", fmt.Errorf("spool: frame %d has %d bytes, want %d: %w", i, len(rows.b), f.Raw, errors.Join(errDamaged, err))
		}
		if err := w.AddFrame(packed.b, f); err != nil {
			return "", err
		}
	}
	if w.Rows() != j.Rows {
		return "", fmt.Errorf("spool: %d rows, want %d: %w", w.Rows(), j.Rows, errDamaged)
	}
	if err := c.addOldDuplicates(w, j, dir); err != nil {
		return "", err
	}
	if err := w.Finish(index.preamble); err != nil {
		return "", err
	}
	return p.Name(), p.Commit()
}

// addOldDuplicates adds the duplicates of an old file. The file has no checksum: there must be as many as were counted, and each
// first row must not be a duplicate itself.
func (c *Coordinator) addOldDuplicates(w *jobfiles.UploadWriter, j *store.Job, dir string) (err error) {
	if j.Duplicates == 0 {
		return nil
	}
	f, err := c.cfg.FS.Open(c.cfg.FS.PathJoin(dir, oldFileDups))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	repeats := jobfiles.NewRowSet(j.Rows)
	var firstOf buffer
	for from := int64(0); from < j.Rows; from += oldFirstsPerRead {
		if err := readFull(f, firstOf.resize(int(4*min(oldFirstsPerRead, j.Rows-from))), 4*from); err != nil {
			return fmt.Errorf("duplicates: %w", err)
		}
		for row, b := uint32(from), firstOf.b; len(b) > 0; row, b = row+1, b[4:] {
			first := binary.LittleEndian.Uint32(b)
			if first == 0 {
				continue
			}
			if err := w.AddDuplicate(row, first-1); err != nil {
				return err
			}
			if repeats.Add(row); repeats.Has(first - 1) {
				return fmt.Errorf("duplicates: row %d repeats row %d, which repeats another: %w", row, first-1, errDamaged)
			}
		}
	}
	if w.Duplicates() != j.Duplicates {
		return fmt.Errorf("%d duplicates, want %d: %w", w.Duplicates(), j.Duplicates, errDamaged)
	}
	return nil
}

// oldIndex is the index of an old upload's frames.
type oldIndex struct {
	preamble []byte
	entries  []byte
}

// readOldIndex reads an index: magic; length of the preamble uint32, the preamble; count of frames uint32, the frames; xxh3 of all.
func readOldIndex(disk vfs.FS, path string) (x oldIndex, err error) {
	f, err := disk.Open(path)
	if err != nil {
		return x, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > oldIndexMaxBytes {
		err = fmt.Errorf("index of %d bytes: %w", info.Size(), errDamaged)
	}
	if err != nil {
		return x, errors.Join(err, f.Close())
	}
	b := make([]byte, info.Size())
	if err := errors.Join(readFull(f, b, 0), f.Close()); err != nil {
		return x, fmt.Errorf("index: %w", err)
	}
	err = x.parse(b)
	return x, err
}

func (x *oldIndex) parse(b []byte) error {
	le, broken := binary.LittleEndian, fmt.Errorf("index: %w", errDamaged)
	n := len(b) - 8
	if n < len(oldIndexMagic)+8 || string(b[:len(oldIndexMagic)]) != oldIndexMagic || le.Uint64(b[n:]) != xxh3.Hash(b[:n]) {
		return broken
	}
	b = b[len(oldIndexMagic):n]
	pre := int64(le.Uint32(b))
	if pre > int64(len(b)-8) {
		return broken
	}
	x.preamble, b = b[4:4+pre], b[4+pre:]
	if x.entries = b[4:]; int64(le.Uint32(b))*oldFrameBytes != int64(len(x.entries)) {
		return broken
	}
	return nil
}

func (x *oldIndex) frames() int { return len(x.entries) / oldFrameBytes }

// frame returns a frame, and the offset and size of its compressed bytes.
func (x *oldIndex) frame(i int) (f jobfiles.Frame, at int64, size int) {
	le, e := binary.LittleEndian, x.entries[i*oldFrameBytes:]
	return jobfiles.Frame{Line: int64(le.Uint64(e[8:])), Raw: le.Uint32(e[20:]), Rows: le.Uint32(e[28:])}, int64(le.Uint64(e)), int(le.Uint32(e[16:]))
}
