package coordinator

import (
	"io"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
)

// nameReader reads the names that answers refer to, for one page after another of the results of one job. It remembers many: most rows
// repeat what those before them said.
type nameReader struct {
	f       io.ReaderAt // the log of the rows
	dialect *csvfile.Dialect
	seen    map[uint32]string
	bytes   int
	cell    []byte
	recent  [recentNames]recentName // by number
}

const (
	nameReaderBytes = 4 << 20 // strings remembered
	recentNames     = 512
)

// nameCell is a name, and how it stands in a cell of the result.
type nameCell struct{ text, cell string }

type recentName struct {
	ref uint32
	nameCell
}

// lookup is the name that an answer refers to.
func (r *nameReader) lookup(ref uint32) (nameCell, error) {
	if ref == 0 {
		return nameCell{}, nil
	}
	slot := &r.recent[ref%recentNames]
	if slot.ref != ref {
		text, err := r.readName(ref)
		if err != nil {
			return nameCell{}, err
		}
		*slot = recentName{ref, r.newNameCell(text)}
	}
	return slot.nameCell, nil
}

// newNameCell is a text with its cell.
func (r *nameReader) newNameCell(text string) nameCell {
	n := nameCell{text, text}
	if r.cell = r.dialect.AppendCell(r.cell[:0], text); string(r.cell) != text {
		n.cell = string(r.cell)
	}
	return n
}

func (r *nameReader) readName(ref uint32) (string, error) {
	if s, ok := r.seen[ref]; ok {
		return s, nil
	}
	s, err := jobfiles.ReadName(r.f, ref)
	if err != nil {
		return "", err
	}
	if r.bytes += len(s) + 64; r.seen == nil || r.bytes > nameReaderBytes {
		r.seen, r.bytes = map[uint32]string{}, 0
	}
	r.seen[ref] = s
	return s, nil
}
