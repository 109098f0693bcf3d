package ingest

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobfiles"
)

const (
	spillBuffer = 16 << 10 // bytes kept in memory for each partition
	spillStart  = 512      // for a partition with few records, as in a short list
)

// spill sorts fixed-size records into partitions on disk, with one small buffer in memory for each partition. Within a
// partition the records stay in the order in which they were added. It is not durable: it is used for one count.
type spill struct {
	f       vfs.File
	end     int64 // of the file
	fs      vfs.FS
	path    string
	bufs    [][]byte
	extents [][]extent
	readBuf []byte // of forEach
}

type extent struct {
	at int64
	n  int
}

func createSpill(fs vfs.FS, path string, partitions int) (*spill, error) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &spill{f: f, fs: fs, path: path, bufs: make([][]byte, partitions), extents: make([][]extent, partitions)},
		nil
}

func (s *spill) add(p int, rec []byte) error {
	b := s.bufs[p]
	switch {
	case len(b)+len(rec) <= cap(b):
	case cap(b) < spillBuffer:
		b = append(make([]byte, 0, max(spillStart, 2*cap(b))), b...)
	default:
		if _, err := s.f.WriteAt(b, s.end); err != nil {
			return err
		}
		s.extents[p] = append(s.extents[p], extent{s.end, len(b)})
		s.end += int64(len(b))
		b = b[:0]
	}
	s.bufs[p] = append(b, rec...)
	return nil
}

// forEach calls visit with the records of a partition, in runs. A run is valid until visit returns.
func (s *spill) forEach(p int, visit func([]byte) error) error {
	for _, e := range s.extents[p] {
		s.readBuf = slices.Grow(s.readBuf[:0], spillBuffer)[:e.n]
		if err := jobfiles.ReadFull(s.f, s.readBuf, e.at); err != nil {
			return err
		}
		if err := visit(s.readBuf); err != nil {
			return err
		}
	}
	return visit(s.bufs[p])
}

func (s *spill) remove() error { return errors.Join(s.f.Close(), s.fs.Remove(s.path)) }
