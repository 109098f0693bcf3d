package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"probity/coordinator/jobfiles"
	"probity/store"
)

const kindUpload = "upload" // of an object

// newEncoder makes the zstd encoder of uploads and results. EncodeAll is safe for concurrent use by workers goroutines, each with 2
// MiB of history. WithLowerEncoderMem is slower: with little more than one window the history is moved for each block.
func newEncoder(workers int) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	return e
}

// newDecoder makes the decoder that all uploads of a coordinator share. It keeps the last frame of each worker in memory, so a
// decoder for each job would cost memory.
func newDecoder(workers int) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	return d
}

// openTries is how often an upload is opened again because an erasure replaced it.
const openTries = 3

// openUpload opens the current upload of a job: an erasure may have replaced the one that j names.
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

// removeOrphans deletes the objects that the job's record does not name: left by an interrupted upload or erasure, or undeletable
// for an erasure. The job's lock is held.
func (c *Coordinator) removeOrphans(id string) error {
	c.migrating.Lock() // a migration writes objects without the job's lock
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

// hasOrphans reports whether a job's folder has objects from before an erasure. Objects that the running job will name soon do not
// count.
func (c *Coordinator) hasOrphans(j *store.Job) (bool, error) {
	names, err := c.objects.List(j.ID)
	return slices.ContainsFunc(names, func(name string) bool {
		return !isReferenced(j, name) && (j.State.Finished() || strings.HasPrefix(name, kindUpload))
	}), ignoreNotExist(err)
}

// isReferenced reports whether the job's record names an object.
func isReferenced(j *store.Job, name string) bool {
	return name == j.Upload || name == j.Result || name == answersName(j)
}

// removeScratch removes the files that a finished job does not need any more.
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

// removeOrphansIfIdle removes the orphans of a job whose lock is free. Else its runner or an erasure removes them.
func (c *Coordinator) removeOrphansIfIdle(id string) error {
	unlock, free := c.tryLockJob(id)
	if !free {
		return nil
	}
	defer unlock()
	return c.removeOrphans(id)
}
