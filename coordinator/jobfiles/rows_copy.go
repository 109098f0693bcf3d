package jobfiles

import (
	"io"
	"strings"

	"github.com/zeebo/xxh3"

	"probity/coordinator/addresses"
	"probity/engine"
)

type groupWriter struct {
	w   io.Writer
	end LogEnd // after the last group
	buf []byte
}

// write writes a group. durable is the number of the last group that is durable.
func (w *groupWriter) write(g *group, durable uint64) error {
	if w.end.At > maxLogBytes {
		return errLogFull
	}
	var sum uint64
	w.buf, sum = g.appendTo(w.buf[:0], w.end.number+1, w.end.Sum, durable)
	if _, err := w.w.Write(w.buf); err != nil {
		return err
	}
	w.end = LogEnd{At: w.end.At + int64(len(w.buf)), Sum: sum, number: w.end.number + 1, last: w.end.At}
	return nil
}

// RowsWriter writes a whole rows log from another one. The log is not read before all of it is durable.
type RowsWriter struct {
	groupWriter
	group     *group
	addresses []xxh3.Uint128 // hashes of names that are addresses, at most one more than a set has
	copied    [copiedNames]copiedName
}

// copiedName is where a name of the log that is copied stands in the group, by its global reference there modulo
// copiedNames.
type copiedName struct{ from, to uint32 }

const copiedNames = 1 << 10

// maxNameAddresses bounds the set of names that are addresses: suggestions. Answers with more have none.
const maxNameAddresses = 1 << 17

// NewRowsWriter starts a log. After Finish, the caller makes w durable.
func NewRowsWriter(w io.Writer) *RowsWriter {
	return &RowsWriter{groupWriter: groupWriter{w: w}, group: newGroup()}
}

// NameReader reads the names of a log by their global references.
type NameReader interface {
	// TextOf returns the text of a name that stands at an index of Refs.
	TextOf(kind int, ref uint32) (string, error)
}

// CopyRecord adds an answer of one other log, whose names are given by their global references there.
func (w *RowsWriter) CopyRecord(row uint32, rec *Record, from NameReader) error {
	own := *rec
	refs := rec.Refs()
	for i, ref := range refs {
		if ref == 0 {
			continue
		}
		slot := &w.copied[ref%copiedNames]
		if slot.from != ref {
			text, err := from.TextOf(i, ref)
			if err != nil {
				return err
			}
			*slot = copiedName{ref, w.group.name(text)}
		}
		refs[i] = slot.to
	}
	own.SetRefs(refs)
	w.group.addAnswer(row, &own)
	return w.flushFull()
}

// AddGroup adds a group of another log, with each of its names replaced by name.
func (w *RowsWriter) AddGroup(g *Group, name func(string) string) error {
	for row, rec := range g.Answers() {
		var names Names
		for i, ref := range rec.Refs() {
			text, err := g.Name(ref)
			if err != nil {
				return err
			}
			names[i] = name(text)
		}
		w.group.addRecord(row, rec, names)
		if err := w.flushFull(); err != nil {
			return err
		}
	}
	return g.Deferred(func(row uint32, d Deferral) error {
		w.group.addDeferral(row, &d)
		return w.flushFull()
	})
}

// flushFull writes the group once it is full.
func (w *RowsWriter) flushFull() error {
	if !w.group.full() {
		return nil
	}
	return w.flush()
}

// flush writes the group unless it is empty. Earlier groups count as durable: none is read before all are.
func (w *RowsWriter) flush() error {
	if w.group.empty() {
		return nil
	}
	err := w.write(w.group, w.end.number)
	for name := range w.group.offsets {
		if strings.IndexByte(name, '@') < 0 || len(w.addresses) > maxNameAddresses {
			continue
		}
		if a, err := engine.Parse(name); err == nil {
			w.addresses = append(w.addresses, addresses.Hash(a.Folded(), 0))
		}
	}
	w.group.reset()
	clear(w.copied[:])
	return err
}

// Finish writes the rest, and returns where the log ends.
func (w *RowsWriter) Finish() (LogEnd, error) {
	err := w.flush()
	return w.end, err
}

// WriteAddresses writes the set of the names that are addresses, after Finish.
func (w *RowsWriter) WriteAddresses() error {
	if len(w.addresses) > maxNameAddresses {
		return nil
	}
	set := addresses.NewSetWriter(w.w, 0)
	for _, h := range w.addresses {
		if err := set.Add(h); err != nil {
			return err
		}
	}
	return set.Finish()
}
