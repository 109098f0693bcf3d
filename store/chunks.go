package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Chunk is rows of a job that wait to be asked. The rows are in the job's chunk file; this is what is true of them.
// A chunk exists until all its rows are answered or in other chunks. What is under way at a prober is known to the
// process alone: after a crash it is simply ready again.
type Chunk struct {
	Number    uint64
	Offset    int64 // in the job's chunk file
	Length    uint32
	Rows      uint32
	Attempt   uint8     // the most deferred attempts of any of its rows
	NotBefore time.Time // millisecond precision; zero: at once
	Class     string    // wide provider, route or tail
	Egress    string    // the identity that must ask; empty for any
}

const chunkVersion = 1

const chunkFixed = 1 + 8 + 4 + 4 + 1 + 8 + 2

var errChunk = errors.New("chunk record is damaged")

// PutChunks is the part that makes chunks exist.
func PutChunks(job string, chunks []Chunk) Part {
	return func(b *pebble.Batch) error {
		for i := range chunks {
			if err := b.Set(keyNumber(tableChunk, job, chunks[i].Number), appendChunk(nil, &chunks[i]), nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// DropChunks is the part that ends chunks whose rows are all answered or in other chunks.
func DropChunks(job string, numbers []uint64) Part {
	return func(b *pebble.Batch) error {
		for _, n := range numbers {
			if err := b.Delete(keyNumber(tableChunk, job, n), nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// FinishChunks ends chunks and makes those that hold their unfinished rows, in one commit.
func (s *Store) FinishChunks(job string, done []uint64, made []Chunk) error {
	return s.Commit(job, DropChunks(job, done), PutChunks(job, made))
}

// DropAllChunks is the part that ends all chunks of a job.
func DropAllChunks(job string) Part {
	return func(b *pebble.Batch) error {
		p := keyUnder(tableChunk, job)
		return b.DeleteRange(p, after(p), nil)
	}
}

// Chunks calls visit with every chunk of a job, by number.
func (s *Store) Chunks(job string, visit func(Chunk) error) error {
	prefix := keyUnder(tableChunk, job)
	return scan(s.db, prefix, nil, func(k, v []byte) error {
		c, err := readChunk(v)
		if err != nil || len(k) != len(prefix)+8 {
			return errors.Join(errChunk, err)
		}
		c.Number = binary.BigEndian.Uint64(k[len(prefix):])
		return visit(c)
	})
}

func appendChunk(dst []byte, c *Chunk) []byte {
	be := binary.BigEndian
	dst = append(dst, chunkVersion)
	dst = be.AppendUint64(dst, uint64(c.Offset))
	dst = be.AppendUint32(dst, c.Length)
	dst = be.AppendUint32(dst, c.Rows)
	dst = append(dst, c.Attempt)
	var due int64
	if !c.NotBefore.IsZero() {
		due = c.NotBefore.UnixMilli()
	}
	dst = be.AppendUint64(dst, uint64(due))
	dst = be.AppendUint16(dst, uint16(len(c.Class)))
	dst = append(dst, c.Class...)
	return append(dst, c.Egress...)
}

func readChunk(b []byte) (Chunk, error) {
	be := binary.BigEndian
	if len(b) < chunkFixed || b[0] != chunkVersion {
		return Chunk{}, errChunk
	}
	c := Chunk{Offset: int64(be.Uint64(b[1:])), Length: be.Uint32(b[9:]), Rows: be.Uint32(b[13:]), Attempt: b[17]}
	if due := int64(be.Uint64(b[18:])); due != 0 {
		c.NotBefore = time.UnixMilli(due).UTC()
	}
	n := int(be.Uint16(b[26:]))
	if len(b) < chunkFixed+n {
		return Chunk{}, errChunk
	}
	c.Class, c.Egress = string(b[chunkFixed:chunkFixed+n]), string(b[chunkFixed+n:])
	return c, nil
}
