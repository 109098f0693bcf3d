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
func (x *index) add(start, end int) bool {
	slot, found := x.find(x.text[start:end])
	if found {
		return false
	}
	x.slots[slot] = uint32(start + 1)
	x.n++
	return true
}

// find returns the slot of a name, or the empty slot for it.
func (x *index) find(name string) (slot uint64, found bool) {
	mask := uint64(len(x.slots) - 1)
	for slot = xxh3.HashString(name) & mask; ; slot = (slot + 1) & mask {
		at := int(x.slots[slot])
		if at == 0 {
			return slot, false
		}
		end := at - 1 + len(name)
		if end < len(x.text) && x.text[end] == '\n' && x.text[at-1:end] == name {
			return slot, true
		}
	}
}

func (x *index) has(name string) bool {
	_, found := x.find(name)
	return found
}

// covers reports a domain that is an entry or a sub-domain of one.
func (x *index) covers(domain string) bool {
	for {
		if x.has(domain) {
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
func (x *index) hasBytes(name []byte) bool { return x.has(string(name)) }

// each calls f with every entry, in no order.
func (x *index) each(f func(name string)) {
	for _, at := range x.slots {
		if at == 0 {
			continue
		}
		end := int(at - 1)
		for x.text[end] != '\n' {
			end++
		}
		f(x.text[at-1 : end])
	}
}

// missingFrom counts the entries that next does not have.
func (x *index) missingFrom(next *index) (n int) {
	x.each(func(name string) {
		if !next.has(name) {
			n++
		}
	})
	return n
}
