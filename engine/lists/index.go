package lists

import (
	"math/bits"
	"strings"

	"github.com/zeebo/xxh3"
)

// index is a set of lines of a text: open addressing over offsets into the text. A slot takes four octets
// and nothing is copied. It compares the text, not only the hash.
type index struct {
	text  string
	slots []uint32 // 0 is empty, else the offset of a line plus one; a power of two, at most half full
	n     int
}

func newIndex(text string, capacity int) *index {
	return &index{text: text, slots: make([]uint32, 1<<bits.Len(uint(max(capacity, 1)*2-1)))}
}

// add adds the line text[start:end], which a newline follows. It returns false for a line that is in the set already.
func (i *index) add(start, end int) bool {
	slot, found := i.find(i.text[start:end])
	if found {
		return false
	}
	i.slots[slot] = uint32(start + 1)
	i.n++
	return true
}

// find returns the slot of a name, or the empty slot for it.
func (i *index) find(name string) (slot uint64, found bool) {
	mask := uint64(len(i.slots) - 1)
	for slot = xxh3.HashString(name) & mask; ; slot = (slot + 1) & mask {
		at := int(i.slots[slot])
		if at == 0 {
			return slot, false
		}
		end := at - 1 + len(name)
		if end < len(i.text) && i.text[end] == '\n' && i.text[at-1:end] == name {
			return slot, true
		}
	}
}

func (i *index) has(name string) bool {
	_, found := i.find(name)
	return found
}

// covers reports whether domain is an entry or a sub-domain of one.
func (i *index) covers(domain string) bool {
	for {
		if i.has(domain) {
			return true
		}
		dot := strings.IndexByte(domain, '.')
		if dot < 0 {
			return false
		}
		domain = domain[dot+1:]
	}
}

// hasBytes is has for a name in a buffer; the conversion does not escape, so it does not allocate.
func (i *index) hasBytes(name []byte) bool { return i.has(string(name)) }

// each calls f with every entry, in no order.
func (i *index) each(f func(name string)) {
	for _, at := range i.slots {
		if at == 0 {
			continue
		}
		end := int(at - 1)
		for i.text[end] != '\n' {
			end++
		}
		f(i.text[at-1 : end])
	}
}

// missingFrom counts the entries that next does not have.
func (i *index) missingFrom(next *index) (n int) {
	i.each(func(name string) {
		if !next.has(name) {
			n++
		}
	})
	return n
}
