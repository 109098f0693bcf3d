package addresses

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unicode"

	"github.com/zeebo/xxh3"
	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// Rules is the version of the rules by which addresses are found in a list, folded and hashed. Raise it when they
// change: an erasure then reads each list whose set was made by other rules.
const Rules = 1

// builtRules identifies the rules of this build: Rules, and the tables of characters that they are applied with.
var builtRules = xxh3.HashString(fmt.Sprint(Rules, " ", unicode.Version, " ", norm.Version, " ", idna.UnicodeVersion))

// A set of addresses is a part of a file:
//
//	pages      fingerprints uint32 each
//	directory  hash of the rules uint64, seed of the hashes uint64, then of each page
//	             least and greatest first byte of its hashes uint16 each, fingerprints uint32, xxh3 of the page uint64
//	footer     length of the directory uint64, xxh3 of directory and length uint64
//
// A fingerprint is 32 bits of the hash of a folded address: of a million addresses that are not in a list of five
// million, five seem to be, if its hashes were added in the order of their first bytes. Numbers are little-endian.
const (
	fingerprintBytes  = 4
	pageBytes         = 16 << 10
	directoryHead     = 8 + 8
	directoryEntry    = 2 + 2 + 4 + 8
	footerBytes       = 8 + 8
	maxDirectoryBytes = 16 << 20
)

// Hash hashes an address in folded form.
func Hash(folded string, seed uint64) xxh3.Uint128 { return xxh3.HashString128Seed(folded, seed) }

func firstByte(h xxh3.Uint128) uint16 { return uint16(h.Hi >> 56) }

// SetWriter writes a set: Add, then Finish.
type SetWriter struct {
	w         io.Writer
	page      []byte
	bounds    [2]uint16 // of the page
	directory []byte
}

// NewSetWriter starts a set that goes to w, of hashes with a seed.
func NewSetWriter(w io.Writer, seed uint64) *SetWriter {
	le := binary.LittleEndian
	return &SetWriter{w: w, directory: le.AppendUint64(le.AppendUint64(nil, builtRules), seed)}
}

// Add adds the hash of an address. A set in which an address is twice cannot be written without it.
func (s *SetWriter) Add(h xxh3.Uint128) error {
	at := firstByte(h)
	if len(s.page) == 0 {
		s.bounds = [2]uint16{at, at}
	}
	s.bounds[0], s.bounds[1] = min(s.bounds[0], at), max(s.bounds[1], at)
	s.page = binary.LittleEndian.AppendUint32(s.page, uint32(h.Lo))
	if len(s.page) < pageBytes {
		return nil
	}
	return s.flush()
}

// flush writes the page.
func (s *SetWriter) flush() error {
	le := binary.LittleEndian
	s.directory = le.AppendUint16(le.AppendUint16(s.directory, s.bounds[0]), s.bounds[1])
	s.directory = le.AppendUint32(s.directory, uint32(len(s.page)/fingerprintBytes))
	s.directory = le.AppendUint64(s.directory, xxh3.Hash(s.page)) // before the write: a file may change the bytes
	_, err := s.w.Write(s.page)
	s.page = s.page[:0]
	return err
}

// Finish writes the rest. Without it the set is not usable.
func (s *SetWriter) Finish() error {
	if len(s.page) > 0 {
		if err := s.flush(); err != nil {
			return err
		}
	}
	b := binary.LittleEndian.AppendUint64(s.directory, uint64(len(s.directory)))
	_, err := s.w.Write(binary.LittleEndian.AppendUint64(b, xxh3.Hash(b)))
	return err
}

// Set is a set in a file. Nil is a set that may contain any address.
type Set struct {
	from  io.ReaderAt
	seed  uint64
	pages []page
}

type page struct {
	bounds [2]uint16
	at     int64
	bytes  int
	sum    uint64
}

// OpenSet opens the set in the bytes of a file from start to end. It is nil if there is none, or none of these Rules,
// or if it cannot be read.
func OpenSet(from io.ReaderAt, start, end int64) *Set {
	le := binary.LittleEndian
	var footer [footerBytes]byte
	end -= footerBytes
	if end < start || !readFull(from, footer[:], end) {
		return nil
	}
	length := le.Uint64(footer[:])
	if length > maxDirectoryBytes || int64(length) > end-start || length < directoryHead ||
		(length-directoryHead)%directoryEntry != 0 {
		return nil
	}
	end -= int64(length)
	b := make([]byte, length, length+8)
	if !readFull(from, b, end) || xxh3.Hash(append(b, footer[:8]...)) != le.Uint64(footer[8:]) ||
		le.Uint64(b) != builtRules {
		return nil
	}
	s := &Set{from: from, seed: le.Uint64(b[8:])}
	for e := b[directoryHead:]; len(e) > 0; e = e[directoryEntry:] {
		p := page{bounds: [2]uint16{le.Uint16(e), le.Uint16(e[2:])}, at: start, sum: le.Uint64(e[8:])}
		bytes := int64(le.Uint32(e[4:])) * fingerprintBytes
		if bytes > pageBytes {
			return nil
		}
		p.bytes = int(bytes)
		start += bytes
		s.pages = append(s.pages, p)
	}
	if start != end {
		return nil
	}
	return s
}

// readFull reports whether it read all of b at an offset.
func readFull(from io.ReaderAt, b []byte, at int64) bool {
	n, _ := from.ReadAt(b, at)
	return n == len(b)
}

func (s *Set) read(p *page, dst []byte) ([]byte, bool) {
	dst = slices.Grow(dst[:0], p.bytes)[:p.bytes]
	return dst, readFull(s.from, dst, p.at) && xxh3.Hash(dst) == p.sum
}

// MayContain reports whether the set may contain an address in folded form. It is true if that cannot be read.
func (s *Set) MayContain(folded string) bool {
	if s == nil {
		return true
	}
	h := Hash(folded, s.seed)
	var b []byte
	for i := range s.pages {
		p := &s.pages[i]
		if !p.mayContain(h) {
			continue
		}
		var whole bool
		b, whole = s.read(p, b)
		if !whole || indexOf(b, h) >= 0 {
			return true
		}
	}
	return false
}

func (p *page) mayContain(h xxh3.Uint128) bool {
	at := firstByte(h)
	return p.bounds[0] <= at && at <= p.bounds[1]
}

// indexOf returns where the fingerprint of h begins in a page, or -1.
func indexOf(page []byte, h xxh3.Uint128) int {
	for i := 0; i < len(page); i += fingerprintBytes {
		if binary.LittleEndian.Uint32(page[i:]) == uint32(h.Lo) {
			return i
		}
	}
	return -1
}

// WriteWithout writes the set to w without an address in folded form. It leaves a set unfinished, which is no set, if
// it cannot be read whole, or if two fingerprints can be that of the address. The error is one of w.
func (s *Set) WriteWithout(w io.Writer, folded string) error {
	if s == nil {
		return nil
	}
	h := Hash(folded, s.seed)
	out := NewSetWriter(w, s.seed)
	removed := false
	for i := range s.pages {
		p := &s.pages[i]
		var whole bool
		out.page, whole = s.read(p, out.page)
		if !whole {
			return nil
		}
		for at := indexOf(out.page, h); at >= 0 && p.mayContain(h); at = indexOf(out.page, h) {
			if removed {
				return nil
			}
			out.page = slices.Delete(out.page, at, at+fingerprintBytes)
			removed = true
		}
		out.bounds = p.bounds
		if len(out.page) > 0 {
			if err := out.flush(); err != nil {
				return err
			}
		}
	}
	return out.Finish()
}
