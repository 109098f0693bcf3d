package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/chunks"
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
	disk vfs.FS
	path string
	f    vfs.File

	mu         sync.Mutex // guards all below, and is held over writes: the split and returned chunks write one at a time
	end        int64
	lastNumber uint64 // highest chunk number
}

func openChunkFile(disk vfs.FS, path string) (*chunkFile, error) {
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &chunkFile{disk: disk, path: path, f: f}, nil
}

// pendingChunk is rows that will be written as one chunk.
type pendingChunk struct {
	rows    *chunks.Builder
	subset  []uint32 // positions in rows; nil: all
	class   string
	source  string
	attempt uint8
	due     time.Time
}

// write writes chunks and releases their rows. Each chunk is built in buf without the lock, so that others can write.
func (f *chunkFile) write(batches []pendingChunk, buf *buffer) ([]chunk, error) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	made := make([]chunk, 0, len(batches))
	for _, b := range batches {
		cut := b.subset
		if cut == nil {
			cut = b.rows.Rows
		}
		buf.b = b.rows.AppendChunk(buf.b[:0], cut, rng)
		number, at, err := f.add(buf.b)
		if err != nil {
			return nil, err
		}
		made = append(made, chunk{number: number, offset: at, length: uint32(len(buf.b)), rows: uint32(len(cut)), attempt: b.attempt,
			notBefore: b.due, class: b.class, source: b.source})
	}
	for _, b := range batches {
		b.rows.Release() // chunks may share one builder: a second call does nothing
	}
	return made, nil
}

// add appends a chunk. A failed write is overwritten by the next one.
func (f *chunkFile) add(b []byte) (number uint64, at int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at = f.end
	if _, err = f.f.WriteAt(b, at); err != nil {
		return 0, 0, fmt.Errorf("chunk file: %w", err)
	}
	f.end += int64(len(b))
	f.lastNumber++
	return f.lastNumber, at, nil
}

// read reads the bytes of a chunk into a buffer.
func (f *chunkFile) read(c chunk, buf *buffer) ([]byte, error) {
	b := buf.resize(int(c.length))
	if n, err := f.f.ReadAt(b, c.offset); n < len(b) {
		return nil, fmt.Errorf("chunk file: %d of %d bytes at %d: %w", n, len(b), c.offset, errors.Join(chunks.ErrDamaged, err))
	}
	return b, nil
}

// Close closes and removes the file.
func (f *chunkFile) Close() error {
	err := f.f.Close()
	if removeErr := f.disk.Remove(f.path); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}
