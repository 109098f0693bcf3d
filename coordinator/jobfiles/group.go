package jobfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"probity/engine"
)

// The rows log of a running job is groups, one after another, each at a multiple of eight bytes:
//
//	magic     8 bytes; the last two are the version and its complement, so that no flipped bit makes it another
//	number    uint64, from 1 up
//	previous  uint64, the checksum of the group before; 0 in the first
//	durable   uint64, the number of the last group that was durable when this one was made
//	answers, deferred, names   uint32 each: how many answers and deferrals, how many bytes of names
//	          uint32, zero
//	names     each its length as a uvarint and its text, padded to a multiple of eight bytes
//	answers   row uint32, Record
//	deferred  row uint32, attempt uint32, due int64 in milliseconds since 1970 or 0, source uint32
//	          zeros to a multiple of eight bytes
//	checksum  uint64, xxh3 of all of the group before it
//
// A reference to a name is its offset in its group divided by eight. Numbers are little-endian.
const (
	// Align is what the offsets of groups in a log, and of names in a group, are multiples of.
	Align = 8

	groupMagic       = "prbrow\x02\xfd"
	groupHeaderBytes = 48
	groupSumBytes    = 8

	entryBytes    = 4 + RecordBytes
	deferredBytes = 4 + 4 + 8 + 4

	groupEntries  = 8 << 10   // answers of one group; as many deferrals
	groupNames    = 512 << 10 // bytes of names after which a group ends
	maxNameBytes  = 8 << 10   // bytes of a name; longer ones are truncated
	maxRowNames   = names + 1 // names of one row: those of its record, and its source
	maxNamesBytes = groupNames + maxRowNames*(maxNameBytes+2*Align)
)

var (
	// ErrDamaged is wrapped by errors about the bytes of a job's own files: it ends that job and no other.
	ErrDamaged = errors.New("a file of the job is damaged")
	// ErrVersion means that this program does not know the file's format.
	ErrVersion = errors.New("made by another version of Probity")
)

// Ignore returns err, or nil if it is one of those that are expected.
func Ignore(err error, expected ...error) error {
	if slices.ContainsFunc(expected, func(one error) bool { return errors.Is(err, one) }) {
		return nil
	}
	return err
}

// Row is an entry of the log for a row: its answer, its deferral, or both.
type Row struct {
	Number     uint32
	Kind       Kind            // None if there is only a deferral
	Verdict    *engine.Verdict // nil if there is only a deferral
	MX         string
	Suggestion string
	Details    string // packed; empty unless the job asks for them

	Deferred bool
	Deferral Deferral
}

// Deferral says when and from which source a row is tried again.
type Deferral struct {
	Due     time.Time // to the millisecond; zero: at once
	Attempt uint8     // attempts so far
	Source  string    // the egress source that must be used; empty for any
}

// group collects rows for one group of the log.
type group struct {
	names    []byte
	answers  []byte
	deferred []byte
	offsets  map[string]uint32
}

func newGroup() *group { return &group{offsets: map[string]uint32{}} }

func (g *group) reset() {
	g.names, g.answers, g.deferred = g.names[:0], g.answers[:0], g.deferred[:0]
	clear(g.offsets)
}

func (g *group) empty() bool { return len(g.answers)+len(g.deferred) == 0 }

func (g *group) full() bool {
	return len(g.answers) >= groupEntries*entryBytes || len(g.deferred) >= groupEntries*deferredBytes ||
		len(g.names) >= groupNames
}

func (g *group) size() int { return len(g.names) + len(g.answers) + len(g.deferred) }

// name returns the reference to a name, and adds the name if it is new.
func (g *group) name(s string) uint32 {
	if s == "" {
		return 0
	}
	s = s[:min(len(s), maxNameBytes)]
	if at, ok := g.offsets[s]; ok {
		return at
	}
	at := uint32((groupHeaderBytes + len(g.names)) / Align)
	g.names = append(binary.AppendUvarint(g.names, uint64(len(s))), s...)
	for len(g.names)%Align != 0 {
		g.names = append(g.names, 0)
	}
	g.offsets[s] = at
	return at
}

func (g *group) add(r *Row) {
	if r.Kind != None {
		rec := NewRecord(r.Kind, r.Verdict)
		g.addRecord(r.Number, &rec, Names{NameProvider: r.Verdict.ProviderName, NameRule: r.Verdict.Rule, NameMX: r.MX,
			NameSuggestion: r.Suggestion,
			NameDetails:    r.Details})
	}
	if r.Deferred {
		g.addDeferral(r.Number, &r.Deferral)
	}
}

func (g *group) addRecord(row uint32, rec *Record, names Names) {
	own := *rec
	var refs Refs
	for i := range names {
		refs[i] = g.name(names[i])
	}
	own.SetRefs(refs)
	g.addAnswer(row, &own)
}

// addAnswer adds an answer whose names are in the group.
func (g *group) addAnswer(row uint32, rec *Record) {
	g.answers = append(binary.LittleEndian.AppendUint32(g.answers, row), rec[:]...)
}

func (g *group) addDeferral(row uint32, d *Deferral) {
	le := binary.LittleEndian
	due := int64(0)
	if !d.Due.IsZero() {
		due = d.Due.UnixMilli()
	}
	source := g.name(d.Source)
	g.deferred = le.AppendUint32(le.AppendUint32(g.deferred, row), uint32(d.Attempt))
	g.deferred = le.AppendUint32(le.AppendUint64(g.deferred, uint64(due)), source)
}

// appendTo appends the encoded group, and returns its checksum.
func (g *group) appendTo(dst []byte, number, previous, durable uint64) ([]byte, uint64) {
	le := binary.LittleEndian
	from := len(dst)
	dst = append(dst, groupMagic...)
	for _, n := range [...]uint64{number, previous, durable} {
		dst = le.AppendUint64(dst, n)
	}
	for _, n := range [...]int{len(g.answers) / entryBytes, len(g.deferred) / deferredBytes, len(g.names), 0} {
		dst = le.AppendUint32(dst, uint32(n))
	}
	dst = append(append(append(dst, g.names...), g.answers...), g.deferred...)
	for (len(dst)-from)%Align != 0 {
		dst = append(dst, 0)
	}
	sum := xxh3.Hash(dst[from:])
	return le.AppendUint64(dst, sum), sum
}

// Group is a group read from a rows log. It is valid until the visit function that gets it returns.
type Group struct {
	At int64 // offset in the log

	bytes    []byte
	number   uint64
	previous uint64
	durable  uint64
	sum      uint64
	names    int // where the names end in bytes
	answers  []byte
	deferred []byte
}

// Answers returns the answers of the group in their order. A record may be changed; its names are those of the group.
func (g *Group) Answers() iter.Seq2[uint32, *Record] {
	return func(yield func(uint32, *Record) bool) {
		for e := g.answers; len(e) > 0; e = e[entryBytes:] {
			if !yield(binary.LittleEndian.Uint32(e), (*Record)(e[4:])) {
				return
			}
		}
	}
}

// AnswerAt returns the offset in the log of the answer with an index in the group.
func (g *Group) AnswerAt(i int) int64 { return g.At + int64(g.names+i*entryBytes) }

// Deferred calls visit with the deferrals of the group in their order.
func (g *Group) Deferred(visit func(row uint32, d Deferral) error) error {
	le := binary.LittleEndian
	for e := g.deferred; len(e) > 0; e = e[deferredBytes:] {
		d := Deferral{Attempt: uint8(min(le.Uint32(e[4:]), 255))}
		if due := int64(le.Uint64(e[8:])); due != 0 {
			d.Due = time.UnixMilli(due).UTC()
		}
		var err error
		if d.Source, err = g.Name(le.Uint32(e[16:])); err != nil {
			return err
		}
		if err := visit(le.Uint32(e), d); err != nil {
			return err
		}
	}
	return nil
}

// Name returns the name at a reference of the group.
func (g *Group) Name(ref uint32) (string, error) {
	if ref == 0 {
		return "", nil
	}
	at := int64(ref) * Align
	if at < groupHeaderBytes || at >= int64(g.names) {
		return "", fmt.Errorf("rows log: group %d has no name at %d: %w", g.number, at, ErrDamaged)
	}
	n, used := binary.Uvarint(g.bytes[at:g.names])
	if used <= 0 || n > maxNameBytes || at+int64(used)+int64(n) > int64(g.names) {
		return "", fmt.Errorf("rows log: group %d has no name at %d: %w", g.number, at, ErrDamaged)
	}
	return string(g.bytes[at+int64(used) : at+int64(used)+int64(n)]), nil
}

// GlobalRef converts a reference of the group to the one that AppendName takes.
func (g *Group) GlobalRef(ref uint32) uint32 {
	if ref == 0 {
		return 0
	}
	return uint32(g.At/Align) + ref
}

// groupLength is the length of the group with this header; 0 if the header is invalid.
func groupLength(head []byte) int {
	le := binary.LittleEndian
	if string(head[:len(groupMagic)]) != groupMagic {
		return 0
	}
	answers, deferred, names := le.Uint32(head[32:]), le.Uint32(head[36:]), le.Uint32(head[40:])
	if answers > groupEntries || deferred > groupEntries || names > maxNamesBytes || names%Align != 0 ||
		answers+deferred == 0 || le.Uint32(head[44:]) != 0 {
		return 0
	}
	n := groupHeaderBytes + int(names) + int(answers)*entryBytes + int(deferred)*deferredBytes
	return n + -n&(Align-1) + groupSumBytes
}

// read decodes the group that fills b. It reports whether the checksum is right.
func (g *Group) read(b []byte, at int64) bool {
	le := binary.LittleEndian
	end := len(b) - groupSumBytes
	g.sum = le.Uint64(b[end:])
	if xxh3.Hash(b[:end]) != g.sum {
		return false
	}
	g.At, g.bytes = at, b
	g.number, g.previous, g.durable = le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])
	answers, deferred := int(le.Uint32(b[32:])), int(le.Uint32(b[36:]))
	g.names = groupHeaderBytes + int(le.Uint32(b[40:]))
	g.answers = b[g.names : g.names+answers*entryBytes]
	g.deferred = b[g.names+answers*entryBytes:][:deferred*deferredBytes]
	return true
}

// EachName calls visit with each name of the group.
func (g *Group) EachName(visit func(name string)) error {
	for at := groupHeaderBytes; at < g.names; {
		s, err := g.Name(uint32(at / Align))
		if err != nil {
			return err
		}
		visit(s)
		_, used := binary.Uvarint(g.bytes[at:g.names])
		at += used + len(s)
		at += -at & (Align - 1)
	}
	return nil
}
