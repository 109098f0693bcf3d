package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"probity/engine"
	"probity/store"
)

// finalize makes the result file and ends the job in one commit with its settlement. Done again after a crash, it makes
// the same file and the same commit.
func (c *Coordinator) finalize(ctx context.Context, j *store.Job) error {
	if err := acquire(ctx, c.assembling); err != nil {
		return nil
	}
	defer func() { <-c.assembling }()
	made, err := c.makeResults(ctx, j)
	if err != nil {
		return err
	}
	done := *j
	done.State = store.JobCompleted
	if j.Cancelled {
		done.State = store.JobCancelled
	}
	done.ResultSHA, done.ResultBytes, done.Error = made.sha, made.bytes, ""
	done.Counts, done.Reasons, done.Charged = map[string]int64{}, map[string]int64{}, made.charged
	for s, n := range made.status {
		done.Counts[engine.Status(s).String()] = n
	}
	for r, n := range made.reason {
		if n > 0 && engine.Reason(r) != engine.ReasonNone {
			done.Reasons[engine.Reason(r).String()] = n
		}
	}
	return c.end(j, &done)
}

// made is a result file, and what its rows come to.
type made struct {
	sha   string
	bytes int64
	totals
}

// makeResults makes the result file of a job, and counts what is in it.
func (c *Coordinator) makeResults(ctx context.Context, j *store.Job) (m made, err error) {
	a, err := c.openAssembly(j, Filter{Form: c.cfg.Stored})
	if err != nil {
		return m, err
	}
	m.sha, m.bytes, err = c.makeFile(ctx, a)
	if closing := a.close(); err == nil {
		err = closing
	}
	m.totals = a.total
	return m, err
}

// failJob ends a job that cannot be brought to its end: nothing is charged.
func (c *Coordinator) failJob(id, why string) error {
	j, err := c.Job(id)
	if err != nil {
		return err
	}
	done := *j
	done.State, done.Error = store.JobFailed, why
	endedNow(&done)
	return c.end(j, &done)
}

// end commits that a job is finished.
func (c *Coordinator) end(was, done *store.Job) error {
	var parts []store.Part
	if c.cfg.OnFinish != nil {
		parts = c.cfg.OnFinish(done)
	}
	_, err := c.change(done.ID, func(j *store.Job) error {
		if j.State != was.State {
			return errMoved
		}
		*j = *done
		return nil
	}, parts...)
	if errors.Is(err, errMoved) {
		return nil
	}
	if err == nil {
		err = removeAny(c.cfg.FS, c.cfg.FS.PathJoin(c.dir(done.ID), fileChunks))
	}
	return err
}

// removeAny removes a file that may not exist.
func removeAny(fs vfs.FS, path string) error {
	if err := fs.Remove(path); err != nil {
		if _, there := fs.Stat(path); there == nil {
			return err
		}
	}
	return nil
}

// makeFile writes the result file under another name, and gives it its own once it is whole and durable.
func (c *Coordinator) makeFile(ctx context.Context, a *assembly) (sum string, size int64, err error) {
	fs, dir := c.cfg.FS, c.dir(a.job.ID)
	path := fs.PathJoin(dir, fileResults)
	f, err := fs.Create(path+fileNew, writeCategory)
	if err != nil {
		return "", 0, err
	}
	w := &summing{w: f, sum: sha256.New()}
	err = a.write(ctx, w)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = fs.Rename(path+fileNew, path)
	}
	if err == nil {
		err = syncDir(fs, dir)
	}
	return hex.EncodeToString(w.sum.Sum(nil)), w.n, err
}

// summing counts and sums what is written.
type summing struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func (s *summing) Write(b []byte) (int, error) {
	n := len(b)
	s.sum.Write(b) // before: a file may change what it is given to write
	s.n += int64(n)
	_, err := s.w.Write(b)
	return n, err
}

// ErrNotReady is the answer to asking for the results of a job that is not finished, without Filter.Partial.
var ErrNotReady = errors.New("the job is not finished")

// ErrExpired is the answer to asking for results that were deleted.
var ErrExpired = errors.New("the results have expired")

// Results writes the results of a job in the form and with the rows that f asks for.
func (c *Coordinator) Results(ctx context.Context, id string, f Filter, w io.Writer) error {
	f = f.complete()
	j, err := c.Job(id)
	switch {
	case err != nil:
		return err
	case j.State == store.JobExpired:
		return ErrExpired
	case j.State == store.JobFailed:
		return ErrState
	case !j.State.Finished() && !f.Partial:
		return ErrNotReady
	}
	if j.State.Finished() && len(f.Status) == 0 && !f.NoInput && f.Format == c.cfg.Stored.Format {
		if f.Compress == c.cfg.Stored.Compress {
			return c.copyStored(ctx, id, w, false)
		}
		if f.Compress == None && c.cfg.Stored.Compress == Zstd {
			return c.copyStored(ctx, id, w, true)
		}
	}
	if err := acquire(ctx, c.rendering); err != nil {
		return err
	}
	defer func() { <-c.rendering }()
	a, err := c.openAssembly(j, f)
	if err != nil {
		return err
	}
	err = a.write(ctx, w)
	return errors.Join(err, a.close())
}

// StoredForm is the form of the file that OpenStored gives.
func (c *Coordinator) StoredForm() Form { return c.cfg.Stored }

// OpenStored opens the result file of a finished job as it is stored. The caller closes it.
func (c *Coordinator) OpenStored(id string) (vfs.File, error) {
	return c.cfg.FS.Open(c.cfg.FS.PathJoin(c.dir(id), fileResults))
}

// copyStored writes the stored file, unpacked if wanted.
func (c *Coordinator) copyStored(ctx context.Context, id string, w io.Writer, unpack bool) error {
	f, err := c.OpenStored(id)
	if err != nil {
		return err
	}
	defer f.Close()
	src := io.Reader(readerUntil{ctx, f})
	if unpack {
		z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return err
		}
		defer z.Close()
		src = z
	}
	_, err = io.CopyBuffer(w, src, make([]byte, 256<<10))
	return err
}

// endedNow marks when asking ended: rows without an answer bear that time.
func endedNow(j *store.Job) { j.FinishedAt = time.Now().UTC() }
