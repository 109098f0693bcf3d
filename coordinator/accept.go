package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/internal/pipeline"
	"probity/store"
)

// DefaultMaxAge is the age limit of cached answers if the caller sets none.
const DefaultMaxAge = 7 * 24 * time.Hour

// Upload is a CSV list to verify.
type Upload struct {
	Body io.Reader // read to its end; its errors are returned unwrapped
	Options
}

// Options are the settings that come with an upload.
type Options struct {
	Account, Name, Filename string
	Key                     string // id of the API key, for the account's own records
	Column                  string // see csvfile.Options
	NoHeader                bool
	MaxAge                  time.Duration // 0 forces fresh probes
	MaxHours                int           // 1 to 720; 0: 24, or 1.5 times the least time that the budgets allow, if that is more
	NoSMTP, Test            bool
	CallbackURL             string
	CallbackContent         string
	CallbackInput           bool // the callback's rows include the other columns of the list
	// Parts returns what else is committed when the job is accepted: reservation, idempotency. It is called after
	// counting. An error of a part refuses the job and is returned unwrapped.
	Parts func(*store.Job) []store.Part
}

// Accept receives a list, checks and counts all of it, and makes it a job, in constant memory. A refused file is a
// *csvfile.Error. A returned job survives a crash. After an error no files are left, except if it is unknown whether the
// commit succeeded: the next start decides that.
func (c *Coordinator) Accept(ctx context.Context, u Upload) (*store.Job, error) {
	if err := acquire(ctx, c.uploadSlots); err != nil {
		return nil, err
	}
	defer func() { <-c.uploadSlots }()
	j := &store.Job{
		ID: newID(), Account: u.Account, Key: u.Key, State: store.JobQueued, Name: u.Name, Filename: u.Filename, MaxAge: u.MaxAge, MaxHours: u.MaxHours,
		NoSMTP: u.NoSMTP, Test: u.Test, CallbackURL: u.CallbackURL, CallbackContent: u.CallbackContent, CallbackInput: u.CallbackInput,
	}
	c.setUploading(j.ID, true)
	defer c.setUploading(j.ID, false)
	if err := c.receive(ctx, j, u); err != nil {
		return nil, c.removeUpload(j.ID, err)
	}
	j.CreatedAt = time.Now().UTC()
	var parts []store.Part
	if u.Parts != nil {
		parts = u.Parts(j)
	}
	if err := c.cfg.Store.AcceptJob(j, parts...); errors.Is(err, store.ErrBroken) {
		return nil, err // the next start finds out whether the store has the job
	} else if err != nil {
		return nil, c.removeUpload(j.ID, err)
	}
	c.mu.Lock()
	if c.startJob != nil { // else Run will start it
		c.startJob(j.ID)
	}
	c.mu.Unlock()
	return j, nil
}

// removeUpload removes the folder of a refused upload and returns the refusal.
func (c *Coordinator) removeUpload(id string, refusal error) error {
	if err := c.cfg.FS.RemoveAll(c.dir(id)); err != nil {
		return errors.Join(refusal, err)
	}
	return refusal
}

// newID returns 128 random bits in hex.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// receive streams the upload into the job's folder and makes it durable.
func (c *Coordinator) receive(ctx context.Context, j *store.Job, u Upload) error {
	fs, dir := c.cfg.FS, c.dir(j.ID)
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	r, err := csvfile.NewReader(contextReader{ctx, u.Body}, csvfile.Options{Column: u.Column, NoHeader: u.NoHeader, Limits: c.cfg.Limits})
	if err != nil {
		return err
	}
	defer r.Close()
	var seed [8]byte
	rand.Read(seed[:])
	count, err := newCounter(c, dir, binary.LittleEndian.Uint64(seed[:]))
	if err != nil {
		return err
	}
	p, err := c.objects.Create(j.ID, kindUpload)
	if err != nil {
		return errors.Join(err, count.remove())
	}
	w := jobfiles.NewUploadWriter(p)
	err = c.writeFrames(r, w, count)
	d := r.Dialect()
	if err == nil && d.Encoding == csvfile.Windows1252 {
		count, err = c.recount(d, dir, count, w.Written(p, c.decoder))
	}
	if err == nil {
		err = c.setCounts(j, d, count, w)
	}
	if err == nil {
		err = w.Finish(r.Preamble())
	}
	if err == nil {
		j.Upload, err = p.Name(), p.Commit()
	}
	if closing := errors.Join(p.Abort(), count.remove()); err == nil {
		err = closing
	}
	return err
}

// receivedBlock is a block that is being written to the upload.
type receivedBlock struct {
	block          csvfile.Block
	packed, hashes []byte
	domains        []string // of its addresses
}

func (rb *receivedBlock) clearForReuse() bool {
	clear(rb.domains[:cap(rb.domains)]) // they refer to the block's text
	return max(cap(rb.block.Buf), cap(rb.packed)) <= csvfile.MaxPooledBytes
}

// writeFrames reads the file to its end. Blocks are compressed and hashed in parallel.
func (c *Coordinator) writeFrames(r *csvfile.Reader, w *jobfiles.UploadWriter, count *duplicateCounter) error {
	fill := func(rb *receivedBlock) error { return r.Next(&rb.block) }
	work := func(rb *receivedBlock) error {
		rb.packed = c.encoder.EncodeAll(rb.block.Buf, rb.packed[:0])
		rb.hashes, rb.domains = count.appendHashes(rb.hashes[:0], rb.domains[:0], &rb.block)
		return nil
	}
	take := func(rb *receivedBlock) error {
		if err := count.add(rb.hashes, rb.domains, len(rb.block.Rows)); err != nil {
			return err
		}
		b := &rb.block
		return w.AddFrame(rb.packed, jobfiles.Frame{Line: b.Line, Rows: uint32(len(b.Rows)), Raw: uint32(len(b.Buf))})
	}
	return pipeline.Run(&c.pools.received, c.workers, fill, work, take)
}

// recount counts again from the frames: only at its end is it known that the file is not UTF-8.
func (c *Coordinator) recount(d csvfile.Dialect, dir string, was *duplicateCounter, u *jobfiles.Upload) (*duplicateCounter, error) {
	if err := was.remove(); err != nil {
		return was, err
	}
	count, err := newCounter(c, dir, was.seed)
	if err != nil {
		return count, err
	}
	var fr jobfiles.FrameReader
	for i := range u.Frames {
		if err := fr.Read(u, &d, i); err != nil {
			return count, err
		}
		hashes, domains := count.appendHashes(nil, nil, &fr.Block)
		if err := count.add(hashes, domains, len(fr.Block.Rows)); err != nil {
			return count, err
		}
	}
	return count, nil
}

// setCounts finishes the count and adds the duplicates to the upload.
func (c *Coordinator) setCounts(j *store.Job, d csvfile.Dialect, count *duplicateCounter, w *jobfiles.UploadWriter) error {
	t, err := count.finish(w)
	if err != nil {
		return err
	}
	j.Rows, j.Unique, j.Duplicates, j.Blank = t.rows, t.unique, t.duplicates, t.blank
	if j.MaxHours == 0 {
		j.MaxHours = count.domains.autoHours(j, c.table.Load(), c.budgets.sources())
	}
	j.Dialect, err = json.Marshal(d)
	return err
}

func (c *Coordinator) setUploading(id string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if on {
		c.receiving[id] = true
	} else {
		delete(c.receiving, id)
	}
}

func (c *Coordinator) isUploading(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.receiving[id]
}

// removeOrphanFolders removes the folders of jobs that have expired or that the store does not know (broken uploads). In
// the other folders it removes the objects that no record names.
func (c *Coordinator) removeOrphanFolders() error {
	fs := c.cfg.FS
	dir := fs.PathJoin(c.cfg.Dir, jobsFolder)
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	found, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(found)
	for _, id := range found {
		if c.isUploading(id) { // checked first: after an upload the store has the job, or its folder is gone
			continue
		}
		if j, err := c.cfg.Store.Job(id); err == nil && j.State != store.JobExpired {
			if err := c.logUnlessFatal(c.removeOrphansIfIdle(id), "unused files of a job were not removed", "job", id); err != nil {
				return err
			}
			continue
		} else if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := fs.RemoveAll(fs.PathJoin(dir, id)); err != nil {
			c.metrics.retentionErrors.Add(1)
			c.log.Error("the folder of a deleted job cannot be removed: it is tried again in an hour", "job", id, "error", err)
		}
	}
	return nil
}

// contextReader fails once its context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
