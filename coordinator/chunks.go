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
	class   string
	egress  string
	attempt uint8
	due     time.Time
}

// write makes the rows of chunks durable; the chunks exist once their records are committed.
func (f *chunkFile) write(batches []batchOf) ([]store.Chunk, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	made := make([]store.Chunk, 0, len(batches))
	for _, b := range batches {
		f.buf = b.rows.appendChunk(f.buf[:0], f.rng)
		at, err := f.f.add(f.buf)
		if err != nil {
			return nil, err
		}
		f.number++
		made = append(made, store.Chunk{Number: f.number, Offset: at, Length: uint32(len(f.buf)), Rows: uint32(b.rows.len()), Attempt: b.attempt,
			NotBefore: b.due, Class: b.class, Egress: b.egress})
	}
	return made, f.f.sync()
}

// read reads the bytes of a chunk.
func (f *chunkFile) read(c store.Chunk) ([]byte, error) {
	b := make([]byte, c.Length)
	if err := readFull(f.f.f, b, c.Offset); err != nil {
		return nil, fmt.Errorf("chunk file: %w", err)
	}
	return b, nil
}
