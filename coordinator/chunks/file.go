package chunks

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire"
)

// Chunk describes rows of a running job that wait to be sent; the rows are in the job's scratch file. A chunk exists
// until all its rows are answered or in other chunks.
type Chunk struct {
	Number    uint64
	Rows      uint32
	Attempt   uint8     // highest attempt of its rows
	NotBefore time.Time // zero: at once
	Class     string    // wide provider, route or ClassTail
	Source    string    // egress source that must probe the rows; empty: any

	offset int64 // in the scratch file
	length uint32
}

// MaxRows bounds the rows of a chunk.
const MaxRows = 32 * wire.MaxRows

// ClassTail is the class of rows of routes that have few rows in a job.
const ClassTail = "tail"

// MaxTailRows is how many rows of a route are in the tail before it gets chunks of its own.
const MaxTailRows = 256

// File is the scratch file of a running job's chunks. It is made again at each start of the job, from the upload and
// the unanswered rows. It is never synced, and removed when work on the job ends.
type File struct {
	disk    vfs.FS
	path    string
	f       vfs.File
	buffers *pipeline.Pool[Buffer]

	// guards all below, and is held over writes: the split and returned chunks write one at a time
	mu         sync.Mutex
	end        int64
	lastNumber uint64 // highest chunk number
}

// Buffer is scratch memory of one goroutine.
type Buffer struct{ b []byte }

// KeepBuffer reports whether a buffer is kept for reuse.
func KeepBuffer(b *Buffer) bool { return cap(b.b) <= csvfile.MaxPooledBytes }

// Create creates an empty file.
func Create(disk vfs.FS, path string, buffers *pipeline.Pool[Buffer]) (*File, error) {
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &File{disk: disk, path: path, f: f, buffers: buffers}, nil
}

// Pending is rows that will be written as one chunk.
type Pending struct {
	Rows    *Builder
	Subset  []uint32 // positions in Rows; nil: all
	Class   string
	Source  string
	Attempt uint8
	Due     time.Time
}

// Write writes chunks and releases their rows. A failed write is overwritten by the next one.
func (f *File) Write(batches []Pending) ([]Chunk, error) {
	buf := f.buffers.Get()
	defer f.buffers.Put(buf)
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	made := make([]Chunk, 0, len(batches))
	for _, b := range batches {
		cut := b.Subset
		if cut == nil {
			cut = b.Rows.Rows
		}
		buf.b = b.Rows.AppendChunk(buf.b[:0], cut, rng) // without the lock, so that others can write
		c := Chunk{length: uint32(len(buf.b)), Rows: uint32(len(cut)), Attempt: b.Attempt, NotBefore: b.Due,
			Class: b.Class, Source: b.Source}
		f.mu.Lock()
		c.offset = f.end
		_, err := f.f.WriteAt(buf.b, c.offset)
		if err == nil {
			f.end += int64(len(buf.b))
			f.lastNumber++
			c.Number = f.lastNumber
		}
		f.mu.Unlock()
		if err != nil {
			return nil, fmt.Errorf("chunk file: %w", err)
		}
		made = append(made, c)
	}
	for _, b := range batches {
		b.Rows.Release() // chunks may share one builder: a second call does nothing
	}
	return made, nil
}

// Read reads a chunk without the rows for which skip is true: they are answered already.
func (f *File) Read(c Chunk, t *engine.Table, skip func(uint32) bool) (*Rows, error) {
	buf := f.buffers.Get()
	defer f.buffers.Put(buf)
	buf.b = slices.Grow(buf.b[:0], int(c.length))[:c.length]
	if n, err := f.f.ReadAt(buf.b, c.offset); n < len(buf.b) {
		return nil, fmt.Errorf("chunk file: %d of %d bytes at %d: %w", n, len(buf.b), c.offset,
			errors.Join(ErrDamaged, err))
	}
	rows, err := unpack(buf.b, t, skip)
	if err != nil {
		return nil, fmt.Errorf("chunk %d: %w", c.Number, err)
	}
	return rows, nil
}

// Close closes and removes the file.
func (f *File) Close() error {
	return errors.Join(f.f.Close(), jobfiles.Ignore(f.disk.Remove(f.path), fs.ErrNotExist))
}

// RoundDue rounds a due time up, to Unix milliseconds, so that rows due at about the same time share a chunk: by at
// most an eighth of the wait and at most ten seconds, so that a wait for an hourly budget loses little. Zero: at once.
func RoundDue(now, due time.Time) int64 {
	wait := due.Sub(now).Milliseconds()
	if due.IsZero() || wait <= 0 {
		return 0
	}
	slot := min(int64(1)<<max(0, bits.Len64(uint64(wait))-4), (10 * time.Second).Milliseconds())
	return (due.UnixMilli() + slot - 1) / slot * slot
}

// DueTime returns a rounded due time as a time; zero: at once.
func DueTime(due int64) time.Time {
	if due == 0 {
		return time.Time{}
	}
	return time.UnixMilli(due).UTC()
}
