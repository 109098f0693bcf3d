package coordinator

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/store"
)

// chunkFile is a job's append-only file of chunks.
type chunkFile struct {
	mu     sync.Mutex // guards the end of f and all below, over I/O: split and landing take turns
	f      *tail
	number uint64 // the highest that exists
	broken error  // of a sync, which may have been of others' chunks too: the disk tells of them once
}

func openChunkFile(fs vfs.FS, path string) (*chunkFile, error) {
	f, err := openTail(fs, path, -1)
	if err != nil {
		return nil, err
	}
	return &chunkFile{f: f}, nil
}

// batchOf is rows that are to become one chunk.
type batchOf struct {
	rows    *packer
	cut     []uint32 // of them; nil: all
	class   string
	egress  string
	attempt uint8
	due     time.Time
}

// write makes the rows of chunks durable, and takes them over; the chunks exist once their records are committed. Each is put
// together in room, where it breathes with rest, which may be nil; others write meanwhile.
func (f *chunkFile) write(batches []batchOf, room *buffer, rest *breather) ([]store.Chunk, error) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	made := make([]store.Chunk, 0, len(batches))
	for _, b := range batches {
		cut := b.cut
		if cut == nil {
			cut = b.rows.rows
		}
		room.b = b.rows.appendChunk(room.b[:0], cut, rng, rest)
		number, at, err := f.add(room.b)
		if err != nil {
			return nil, err
		}
		made = append(made, store.Chunk{Number: number, Offset: at, Length: uint32(len(room.b)), Rows: uint32(len(cut)), Attempt: b.attempt,
			NotBefore: b.due, Class: b.class, Egress: b.egress})
	}
	for _, b := range batches {
		b.rows.release() // once, however many chunks are cut from it
	}
	return made, f.sync()
}

// add appends a chunk.
func (f *chunkFile) add(b []byte) (number uint64, at int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return 0, 0, f.broken
	}
	if at, err = f.f.add(b); err != nil {
		return 0, 0, err
	}
	f.number++
	return f.number, at, nil
}

// sync makes what was added durable. Once it has failed nobody's chunks are, until the file is opened again.
func (f *chunkFile) sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken == nil {
		f.broken = f.f.sync()
	}
	return f.broken
}

// read reads the bytes of a chunk into a buffer.
func (f *chunkFile) read(c store.Chunk, into *buffer) ([]byte, error) {
	b := into.grown(int(c.Length))
	if err := readFull(f.f.f, b, c.Offset); err != nil {
		return nil, fmt.Errorf("chunk file: %w", err)
	}
	return b, nil
}
