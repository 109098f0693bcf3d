package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/store"
)

const kindUpload = "upload" // of an object

// newEncoder makes the compressor of an upload's frames and stored results. EncodeAll may be called from any goroutine. Its history has
// room for two windows: with room for little more than one, which is what lower memory means, it is moved down for each block
// of a page past the first MiB, and that was a tenth of the work. So many work at one time, each with 2 MiB.
func newEncoder(workers int) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	return e
}

// newDecoder makes the decoder that all uploads of a coordinator share. It keeps hold of what it unpacked last, a frame for each
// of those that work at one time: a decoder for each job was 45 of 228 MB alive with ten jobs of 50,000 rows.
func newDecoder(workers int) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	return d
}

// openTries bounds how often an upload is looked for that erasures replace.
const openTries = 3

// openUpload opens the upload of a job, as the job is in the store: an erasure may have replaced the one that j names.
func (c *Coordinator) openUpload(j *store.Job) (u *jobfiles.Upload, err error) {
	for range openTries {
		if j, err = c.migrateUpload(j); err != nil {
			return nil, err
		}
		u, err = jobfiles.OpenUpload(c.objects, j.ID, j.Upload, c.decoder)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		now, again := c.Job(j.ID)
		if again != nil || now.Upload == j.Upload {
			return nil, errors.Join(err, again)
		}
		j = now
	}
	if err == nil && (u.Rows() != j.Rows || u.Duplicates() != j.Duplicates) {
		return nil, errors.Join(fmt.Errorf("%s of %d rows, %d of them duplicates; the job has %d and %d: %w", j.Upload, u.Rows(), u.Duplicates(), j.Rows, j.Duplicates, errDamaged), u.Close())
	}
	return u, err
}

// removeOrphans deletes the objects that no record names: an upload or erasure that broke off left them, or an erasure could not delete
// them. The job's lock is held.
func (c *Coordinator) removeOrphans(id string) error {
	c.migrating.Lock() // which writes objects without the lock
	defer c.migrating.Unlock()
	names, err := c.objects.List(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	j, err := c.Job(id)
	if err != nil {
		return ignoreNotFound(err)
	}
	if j.Upload != "" {
		if err := c.removeOldUpload(c.dir(id)); err != nil {
			return err
		}
	}
	if err := c.removeScratch(j); err != nil {
		return err
	}
	return c.objects.Delete(id, slices.DeleteFunc(names, func(name string) bool { return isReferenced(j, name) })...)
}

// hasOrphans reports that a job's folder has objects of before an erasure. Those that work on the job is about to name do not count.
func (c *Coordinator) hasOrphans(j *store.Job) (bool, error) {
	names, err := c.objects.List(j.ID)
	return slices.ContainsFunc(names, func(name string) bool {
		return !isReferenced(j, name) && (j.State.Finished() || strings.HasPrefix(name, kindUpload))
	}), ignoreNotExist(err)
}

// isReferenced reports an object that the job's record names.
func isReferenced(j *store.Job, name string) bool {
	return name == j.Upload || name == j.Result || name == answersName(j)
}

// removeScratch removes what a finished job does not need any more.
func (c *Coordinator) removeScratch(j *store.Job) error {
	var over []string
	if j.State.Finished() {
		over = append(over, fileChunks)
	}
	if j.Answers != nil {
		over = append(over, fileRows)
	}
	if j.Result != "" {
		over = append(over, oldFileResults)
	}
	for _, name := range over {
		if err := removeIfExists(c.cfg.FS, c.cfg.FS.PathJoin(c.dir(j.ID), name)); err != nil {
			return err
		}
	}
	return nil
}

// removeOrphansIfIdle sweeps a job whose lock is free. Where it is not, its runner or an erasure sweeps.
func (c *Coordinator) removeOrphansIfIdle(id string) error {
	unlock, free := c.tryLockJob(id)
	if !free {
		return nil
	}
	defer unlock()
	return c.removeOrphans(id)
}

// frameReader reads frames of an upload into memory of its own; one goroutine each.
type frameReader struct {
	block       csvfile.Block // valid until the next read
	packed, raw []byte
}

// small reports that the reader has read no frame of rows of megabytes.
func (r *frameReader) small() bool {
	return max(cap(r.packed), cap(r.raw), cap(r.block.Buf)) <= maxPooledBytes
}

// read reads frame i as rows in UTF-8.
func (r *frameReader) read(u *jobfiles.Upload, d *csvfile.Dialect, i int) (err error) {
	f := u.Frames[i]
	if r.packed, r.raw, err = u.Unpack(i, r.packed, r.raw); err != nil {
		return err
	}
	r.block.Buf, r.block.First, r.block.Line = r.raw, f.First, f.Line
	if d.Encoding == csvfile.Windows1252 {
		r.block.Buf = d.AppendUTF8(nil, r.raw)
	}
	r.block.Rows = slices.Grow(r.block.Rows[:0], int(min(f.Rows, csvfile.MaxBlockRows))) // a short list has no time to reuse what grew
	if err := d.Parse(&r.block); err != nil {
		return fmt.Errorf("upload frame %d: %w: %w", i, errDamaged, err)
	}
	if len(r.block.Rows) != int(f.Rows) {
		return fmt.Errorf("upload frame %d has %d rows, want %d: %w", i, len(r.block.Rows), f.Rows, errDamaged)
	}
	return nil
}
