package results

import (
	"io"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
)

// nameReader reads the names that the answers of one job refer to. It caches many: most rows repeat names of earlier
// rows.
type nameReader struct {
	f       io.ReaderAt // rows log or answers file
	dialect *csvfile.Dialect
	seen    map[uint32]string
	bytes   int
	text    []byte                  // of lookup
	cell    []byte                  // of newNameCell
	recent  [recentNames]recentName // by reference modulo recentNames
}

const (
	nameReaderBytes = 4 << 20 // bytes of seen
	recentNames     = 512
)

type nameCell struct{ text, cell string }

type recentName struct {
	ref uint32
	nameCell
}

func (r *nameReader) lookup(ref uint32) (nameCell, error) {
	if ref == 0 {
		return nameCell{}, nil
	}
	slot := &r.recent[ref%recentNames]
	if slot.ref == ref {
		return slot.nameCell, nil
	}
	text, ok := r.seen[ref]
	if !ok {
		var err error
		if r.text, err = jobfiles.AppendName(r.text[:0], r.f, ref); err != nil {
			return nameCell{}, err
		}
		text = string(r.text)
		r.bytes += len(text) + 64
		if r.seen == nil || r.bytes > nameReaderBytes {
			r.seen, r.bytes = map[uint32]string{}, 0
		}
		r.seen[ref] = text
	}
	*slot = recentName{ref, r.newNameCell(text)}
	return slot.nameCell, nil
}

// TextOf returns the text of a name of a kind. Details hardly ever repeat, so they are not remembered.
func (r *nameReader) TextOf(kind int, ref uint32) (string, error) {
	if kind != jobfiles.NameDetails {
		n, err := r.lookup(ref)
		return n.text, err
	}
	var err error
	r.text, err = jobfiles.AppendName(r.text[:0], r.f, ref)
	return string(r.text), err
}

func (r *nameReader) newNameCell(text string) nameCell {
	n := nameCell{text, text}
	r.cell = r.dialect.AppendCell(r.cell[:0], text)
	if string(r.cell) != text {
		n.cell = string(r.cell)
	}
	return n
}
