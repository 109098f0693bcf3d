package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/sheet"
)

const (
	namesMagic  = "prbnam01"
	nameAlign   = 8 // an offset counts these, so that 32 bits reach 32 GiB
	knownNames  = 64 << 10
	nameMax     = 8 << 10
	nameReadLen = 512
)

var errNamesFull = errors.New("the job refers to more than 32 GiB of names")

// names is a job's append-only file of strings. An offset is a number above zero; zero is the empty string.
// Strings may stand there more than once: what is known to be there already is bounded.
type names struct {
	mu      sync.Mutex // guards all below
	f       *tail
	pending []byte // not yet written; begins at f.end
	known   map[string]uint32
	dirty   bool
}

func openNames(fs vfs.FS, path string) (*names, error) {
	f, err := openTail(fs, path, -1)
	if err != nil {
		return nil, err
	}
	n := &names{f: f, known: map[string]uint32{}}
	if f.end == 0 {
		n.pending = append(n.pending, namesMagic...)
	}
	f.end += -f.end & (nameAlign - 1) // what a crash left behind is referred to by nobody
	return n, nil
}

// offset is where s stands, or will once flush returned nil.
func (n *names) offset(s string) (uint32, error) {
	if s == "" {
		return 0, nil
	}
	s = s[:min(len(s), nameMax)]
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.known[s]; ok {
		return at, nil
	}
	at := (n.f.end + int64(len(n.pending))) / nameAlign
	if at >= 1<<32 {
		return 0, errNamesFull
	}
	n.pending = binary.AppendUvarint(n.pending, uint64(len(s)))
	n.pending = append(n.pending, s...)
	for len(n.pending)%nameAlign != 0 {
		n.pending = append(n.pending, 0)
	}
	if len(n.known) >= knownNames {
		clear(n.known)
	}
	n.known[s] = uint32(at)
	return uint32(at), nil
}

// flush makes every offset given so far durable.
func (n *names) flush() error {
	n.mu.Lock()
	defer n.mu.Unlock() // over I/O: who asks for a new offset must not overtake the file's end
	if len(n.pending) > 0 {
		if _, err := n.f.add(n.pending); err != nil {
			return err
		}
		n.pending, n.dirty = n.pending[:0], true
	}
	if !n.dirty {
		return nil
	}
	if err := n.f.sync(); err != nil {
		return err
	}
	n.dirty = false
	return nil
}

func (n *names) Close() error { return n.f.Close() }

// heldNames bounds the part of a job's names that is held in memory while its rows are put together: a hundred thousand
// domains come to some 4 MiB, and each name read by itself was a fifth of the work on a row.
const heldNames = 8 << 20

// holdNames reads the first names of a file.
func holdNames(f vfs.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	var held strings.Builder
	n := min(info.Size(), heldNames)
	held.Grow(int(n))
	_, err = io.Copy(&held, io.NewSectionReader(f, 0, n))
	return held.String(), err
}

// nameReader reads names by offset: of those that are not held it remembers some. One goroutine each.
type nameReader struct {
	f       vfs.File
	dialect *sheet.Dialect
	held    string // the file's beginning, shared
	seen    map[uint32]string
	bytes   int
	cell    []byte                  // the last one, its memory reused
	recent  [recentNames]recentName // by offset: most rows repeat what those before them said
}

const (
	nameReaderBytes = 4 << 20 // strings remembered
	recentNames     = 512
)

// name is a name, and how it stands in a cell of the result.
type name struct{ text, cell string }

type recentName struct {
	offset uint32
	name
}

// named is the name at an offset.
func (r *nameReader) named(off uint32) (name, error) {
	if off == 0 {
		return name{}, nil
	}
	slot := &r.recent[off%recentNames]
	if slot.offset != off {
		text, err := r.at(off)
		if err != nil {
			return name{}, err
		}
		*slot = recentName{off, r.name(text)}
	}
	return slot.name, nil
}

// name is a text with its cell.
func (r *nameReader) name(text string) name {
	n := name{text, text}
	if r.cell = r.dialect.AppendCell(r.cell[:0], text); string(r.cell) != text {
		n.cell = string(r.cell)
	}
	return n
}

func (r *nameReader) at(off uint32) (string, error) {
	if off == 0 {
		return "", nil
	}
	if s, ok := r.heldAt(int64(off) * nameAlign); ok {
		return s, nil
	}
	if s, ok := r.seen[off]; ok {
		return s, nil
	}
	s, err := readName(r.f, int64(off)*nameAlign)
	if err != nil {
		return "", fmt.Errorf("names: %w", err)
	}
	if r.bytes += len(s) + 64; r.seen == nil || r.bytes > nameReaderBytes {
		r.seen, r.bytes = map[uint32]string{}, 0
	}
	r.seen[off] = s
	return s, nil
}

// heldAt is the name at an offset, if all of it is held.
func (r *nameReader) heldAt(at int64) (string, bool) {
	if at >= int64(len(r.held)) {
		return "", false
	}
	rest := r.held[at:]
	n, used := binary.Uvarint([]byte(rest[:min(len(rest), binary.MaxVarintLen16)]))
	if used <= 0 || n > nameMax || used+int(n) > len(rest) {
		return "", false
	}
	return rest[used : used+int(n)], true
}

func readName(f vfs.File, at int64) (string, error) {
	var short [nameReadLen]byte
	got, err := f.ReadAt(short[:], at)
	n, used := binary.Uvarint(short[:got])
	if used <= 0 || n > nameMax {
		return "", errors.Join(err, fmt.Errorf("no name at %d: %w", at, errDamaged))
	}
	if used+int(n) <= got {
		return string(short[used : used+int(n)]), nil
	}
	b := make([]byte, n)
	err = readFull(f, b, at+int64(used))
	return string(b), err
}
