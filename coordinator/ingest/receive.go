package ingest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/store"
)

const maxUploads = 8 // uploads received at one time

// Upload is a CSV list to verify.
type Upload struct {
	Body io.Reader // read to its end; its errors are returned unwrapped
	Options
}

// Options are the settings that come with an upload.
type Options struct {
	Account, Name, Filename string
	Key                     string          // id of the API key, for the account's own records
	Reading                 csvfile.Options // its Limits are the receiver's
	MaxAge                  time.Duration   // 0 forces fresh probes
	// 1 to 720; 0: 24, or 1.5 times the least time that the budgets allow, if that is more
	MaxHours              int
	NoSMTP, Test, Details bool
	CallbackURL           string
	CallbackContent       string
	CallbackInput         bool // the callback's rows include the other columns of the list
	// Parts returns what else is committed when the job is accepted: reservation, idempotency. It is called after
	// counting, and may still change the job's options and its state. An error of a part refuses the job and is
	// returned unwrapped.
	Parts func(*store.Job) []store.Part
}

// Config configures a Receiver.
type Config struct {
	Store   *store.Store
	Files   *jobdir.Dirs
	Encoder *zstd.Encoder // of frames
	Workers int
	Limits  csvfile.Limits
	Table   func() *engine.Table
	Sources func() int // egress sources
}

// Receiver receives uploads.
type Receiver struct {
	cfg       Config
	slots     chan struct{}
	blocks    pipeline.Pool[receivedBlock]
	receiving sync.Map // ids of uploads that are not jobs yet
}

// New makes a Receiver.
func New(cfg Config) *Receiver {
	r := &Receiver{cfg: cfg, slots: make(chan struct{}, maxUploads)}
	r.blocks.Reset = (*receivedBlock).clearForReuse
	return r
}

// Receiving reports whether an upload is not a job yet. Once it is not, the store has the job, or its folder is gone.
func (r *Receiver) Receiving(id string) bool {
	_, on := r.receiving.Load(id)
	return on
}

// Accept receives a list, checks and counts all of it, and makes it a job, in constant memory. A refused file is a
// *csvfile.Error. A returned job survives a crash. After an error no files are left, except if it is unknown whether
// the commit succeeded: the next start decides that.
func (r *Receiver) Accept(ctx context.Context, u Upload) (*store.Job, error) {
	if err := pipeline.Acquire(ctx, r.slots); err != nil {
		return nil, err
	}
	defer func() { <-r.slots }()
	var id [16]byte
	rand.Read(id[:])
	j := &store.Job{
		ID: hex.EncodeToString(id[:]), Account: u.Account, Key: u.Key, State: store.JobQueued, Name: u.Name,
		Filename: u.Filename, MaxAge: u.MaxAge, MaxHours: u.MaxHours,
		NoSMTP: u.NoSMTP, Test: u.Test, Details: u.Details, CallbackURL: u.CallbackURL,
		CallbackContent: u.CallbackContent, CallbackInput: u.CallbackInput,
	}
	r.receiving.Store(j.ID, true)
	defer r.receiving.Delete(j.ID)
	err := r.receive(ctx, j, u)
	if err == nil {
		j.CreatedAt = time.Now().UTC()
		var parts []store.Part
		if u.Parts != nil {
			parts = u.Parts(j)
		}
		err = r.cfg.Store.AcceptJob(j, parts...)
		if err == nil {
			return j, nil
		}
		if errors.Is(err, store.ErrBroken) {
			return nil, err // the next start finds out whether the store has the job
		}
	}
	if failed := r.cfg.Files.FS.RemoveAll(r.cfg.Files.Path(j.ID)); failed != nil {
		err = errors.Join(err, failed)
	}
	return nil, err
}

// receive streams the upload into the job's folder and makes it durable.
func (r *Receiver) receive(ctx context.Context, j *store.Job, u Upload) (err error) {
	files := r.cfg.Files
	if err := files.FS.MkdirAll(files.Path(j.ID), 0o700); err != nil {
		return err
	}
	reading := u.Reading
	reading.Limits = r.cfg.Limits
	rows, err := csvfile.NewReader(pipeline.ContextReader{Context: ctx, Reader: u.Body}, reading)
	if err != nil {
		return err
	}
	defer rows.Close()
	var seed [8]byte
	rand.Read(seed[:])
	count, err := r.newCounter(j.ID, binary.LittleEndian.Uint64(seed[:]))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, count.remove()) }()
	p, err := files.Create(j.ID, jobdir.KindUpload)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, p.Abort()) }()
	w := jobfiles.NewUploadWriter(p)
	// Blocks are compressed and hashed in parallel.
	fill := func(rb *receivedBlock) error { return rows.Next(&rb.block) }
	work := func(rb *receivedBlock) error {
		rb.packed = r.cfg.Encoder.EncodeAll(rb.block.Buf, rb.packed[:0])
		rb.hashes, rb.domains = count.appendHashes(rb.hashes[:0], rb.domains[:0], &rb.block)
		return nil
	}
	take := func(rb *receivedBlock) error {
		b := &rb.block
		if err := count.add(rb.hashes, rb.domains, len(b.Rows)); err != nil {
			return err
		}
		return w.AddFrame(rb.packed, jobfiles.Frame{Line: b.Line, Rows: uint32(len(b.Rows)), Raw: uint32(len(b.Buf))})
	}
	if err := pipeline.Run(&r.blocks, r.cfg.Workers, fill, work, take); err != nil {
		return err
	}
	d := rows.Dialect()
	if d.IsOneByte() { // known only now: the frames are counted again
		if err := count.remove(); err != nil {
			return err
		}
		if count, err = r.newCounter(j.ID, count.seed); err != nil {
			return err
		}
		var fr jobfiles.FrameReader
		u := w.Written(p, files.Decoder)
		for i := range u.Frames {
			if err := fr.Read(u, &d, i); err != nil {
				return err
			}
			hashes, domains := count.appendHashes(nil, nil, &fr.Block)
			if err := count.add(hashes, domains, len(fr.Block.Rows)); err != nil {
				return err
			}
		}
	}
	if err := count.addPreamble(rows.Preamble(), d); err != nil {
		return err
	}
	if err := count.finish(w); err != nil {
		return err
	}
	j.Rows = count.rows
	j.Unique = count.unique
	j.Duplicates = count.duplicates
	j.Blank = count.blank
	if j.MaxHours == 0 {
		j.MaxHours = autoHours(r.leastTime(j, count.domains))
	}
	if j.Dialect, err = json.Marshal(d); err != nil {
		return err
	}
	if err := w.Finish(rows.Preamble()); err != nil {
		return err
	}
	j.Upload = p.Name()
	return p.Commit()
}

// receivedBlock is a block that is being written to the upload.
type receivedBlock struct {
	block          csvfile.Block
	packed, hashes []byte
	domains        []string // of its addresses
}

func (rb *receivedBlock) clearForReuse() bool {
	clear(rb.domains[:cap(rb.domains)]) // they refer to the block's text
	return max(cap(rb.block.Buf), cap(rb.packed), cap(rb.hashes)) <= csvfile.MaxPooledBytes
}
