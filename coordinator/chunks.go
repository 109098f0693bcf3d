package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/chunks"
	"probity/coordinator/jobfiles"
	"probity/internal/pipeline"
)

// chunk describes rows of a running job that wait to be sent; the rows are in the job's scratch file. A chunk exists until
// all its rows are answered or in other chunks.
type chunk struct {
	number    uint64
	offset    int64 // in the scratch file
	length    uint32
	rows      uint32
	attempt   uint8     // highest attempt of its rows
	notBefore time.Time // zero: at once
	class     string    // wide provider, route or tail
	source    string    // egress source that must probe the rows; empty: any
}

// chunkFile is the scratch file of a running job's chunks. It is made again at each start of the job, from the upload and the
// unanswered rows. It is never synced, and removed when work on the job ends.
type chunkFile struct {
	disk    vfs.FS
	path    string
	f       vfs.File
	buffers *pipeline.Pool[buffer]

	mu         sync.Mutex // guards all below, and is held over writes: the split and returned chunks write one at a time
	end        int64
	lastNumber uint64 // highest chunk number
}

// buffer is scratch memory of one goroutine.
type buffer struct{ b []byte }

// pendingChunk is rows that will be written as one chunk.
type pendingChunk struct {
	rows    *chunks.Builder
	subset  []uint32 // positions in rows; nil: all
	class   string
	source  string
	attempt uint8
	due     time.Time
}

// write writes chunks and releases their rows. A failed write is overwritten by the next one.
func (f *chunkFile) write(batches []pendingChunk) ([]chunk, error) {
	buf := f.buffers.Get()
	defer f.buffers.Put(buf)
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	made := make([]chunk, 0, len(batches))
	for _, b := range batches {
		cut := b.subset
		if cut == nil {
			cut = b.rows.Rows
		}
		buf.b = b.rows.AppendChunk(buf.b[:0], cut, rng) // without the lock, so that others can write
		c := chunk{length: uint32(len(buf.b)), rows: uint32(len(cut)), attempt: b.attempt, notBefore: b.due, class: b.class, source: b.source}
		f.mu.Lock()
		c.offset = f.end
		_, err := f.f.WriteAt(buf.b, c.offset)
		if err == nil {
			f.end += int64(len(buf.b))
			f.lastNumber++
			c.number = f.lastNumber
		}
		f.mu.Unlock()
		if err != nil {
			return nil, fmt.Errorf("chunk file: %w", err)
		}
		made = append(made, c)
	}
	for _, b := range batches {
		b.rows.Release() // chunks may share one builder: a second call does nothing
	}
	return made, nil
}

func (f *chunkFile) read(c chunk, buf *buffer) ([]byte, error) {
	buf.b = slices.Grow(buf.b[:0], int(c.length))[:c.length]
	b := buf.b
	if n, err := f.f.ReadAt(b, c.offset); n < len(b) {
		return nil, fmt.Errorf("chunk file: %d of %d bytes at %d: %w", n, len(b), c.offset, errors.Join(chunks.ErrDamaged, err))
	}
	return b, nil
}

// Close closes and removes the file.
func (f *chunkFile) Close() error {
	return errors.Join(f.f.Close(), jobfiles.Ignore(f.disk.Remove(f.path), fs.ErrNotExist))
}
