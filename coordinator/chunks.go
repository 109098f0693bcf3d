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
	mu     sync.Mutex // guards all below, over I/O: split and landing take turns
	f      *tail
	rng    *rand.Rand
	number uint64 // the highest that exists
	buf    []byte
}

func openChunkFile(fs vfs.FS, path string) (*chunkFile, error) {
	f, err := openTail(fs, path, -1)
	if err != nil {
		return nil, err
	}
	return &chunkFile{f: f, rng: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}, nil
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

// write makes the rows of chunks durable, and takes them over; the chunks exist once their records are committed. It breathes with
// rest, which may be nil.
func (f *chunkFile) write(batches []batchOf, rest *breather) ([]store.Chunk, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	made := make([]store.Chunk, 0, len(batches))
	for _, b := range batches {
		cut := b.cut
		if cut == nil {
			cut = b.rows.rows
		}
		f.buf = b.rows.appendChunk(f.buf[:0], cut, f.rng, rest)
		at, err := f.f.add(f.buf)
		if err != nil {
			return nil, err
		}
		f.number++
		made = append(made, store.Chunk{Number: f.number, Offset: at, Length: uint32(len(f.buf)), Rows: uint32(len(cut)), Attempt: b.attempt,
			NotBefore: b.due, Class: b.class, Egress: b.egress})
	}
	for _, b := range batches {
		b.rows.release() // once, however many chunks are cut from it
	}
	return made, f.f.sync()
}

// read reads the bytes of a chunk into a buffer.
func (f *chunkFile) read(c store.Chunk, into *buffer) ([]byte, error) {
	b := into.grown(int(c.Length))
	if err := readFull(f.f.f, b, c.Offset); err != nil {
		return nil, fmt.Errorf("chunk file: %w", err)
	}
	return b, nil
}
