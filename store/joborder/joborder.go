package joborder

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Order is the order of a list of jobs. An order by name has the newest first of those with equal names.
type Order byte

// The orders.
const (
	Newest Order = iota
	Oldest
	ByName
	ByNameReversed
	Orders // their number
)

// IsByName reports whether o sorts by name, not by time.
func (o Order) IsByName() bool { return o == ByName || o == ByNameReversed }

// IsReversed reports whether the places of o descend.
func (o Order) IsReversed() bool { return o == Oldest || o == ByNameReversed }

// Place is what jobs are ordered by.
type Place struct {
	Name    []byte // empty in an order by time
	Created uint64 // the complement of its nanoseconds since 1970: the newest is the least
	ID      []byte
}

func (p Place) compare(with Place, o Order) int {
	order := cmp.Or(bytes.Compare(p.Name, with.Name), cmp.Compare(p.Created, with.Created),
		bytes.Compare(p.ID, with.ID))
	if o.IsReversed() {
		return -order
	}
	return order
}

// Cursor is the place as the cursor of the page after it: order, created, name, 0, id.
func (p Place) Cursor(o Order) string {
	return string(binary.BigEndian.AppendUint64([]byte{byte(o)}, p.Created)) + string(p.Name) + "\x00" + string(p.ID)
}

// ParseCursor is the reverse of Cursor. It reports false for what cannot be a cursor.
func ParseCursor(s string) (p Place, o Order, ok bool) {
	if len(s) < 1+8 || Order(s[0]) >= Orders {
		return p, o, false
	}
	o = Order(s[0])
	name, id, closed := bytes.Cut([]byte(s[1+8:]), []byte{0})
	ok = closed && len(id) > 0 && (len(name) == 0 || o.IsByName())
	return Place{Name: name, Created: binary.BigEndian.Uint64([]byte(s[1:])), ID: id}, o, ok
}

// Page collects the first places of an order after a cursor: Limit of them, and one more if there are more.
type Page struct {
	Order  Order
	Limit  int    // at least 1
	After  *Place // nil for the first page
	places []Place
	last   *Place // places after it are not needed; nil before the first cut
}

// Add adds a place. Its slices are copied if they are kept.
func (p *Page) Add(at Place) {
	if p.After != nil && at.compare(*p.After, p.Order) <= 0 || p.last != nil && at.compare(*p.last, p.Order) > 0 {
		return
	}
	at.Name, at.ID = bytes.Clone(at.Name), bytes.Clone(at.ID)
	p.places = append(p.places, at)
	if len(p.places) >= 4*(p.Limit+1) {
		p.cut()
	}
}

// Full reports whether there is more than the page.
func (p *Page) Full() bool { return len(p.places) > p.Limit }

// Places returns the places of the page in their order, and the cursor of the next one, empty on the last.
func (p *Page) Places() (places []Place, next string) {
	p.cut()
	if !p.Full() {
		return p.places, ""
	}
	return p.places[:p.Limit], p.places[p.Limit-1].Cursor(p.Order)
}

// cut keeps the places of the page, and the next one.
func (p *Page) cut() {
	slices.SortFunc(p.places, func(a, b Place) int { return a.compare(b, p.Order) })
	if p.Full() {
		p.places = p.places[:p.Limit+1]
		last := p.places[p.Limit]
		p.last = &last
	}
}

// MaxName is the length of a name up to which it decides the order, in bytes.
const MaxName = 96

// Value is the value of a job in the index: its state, 0, and its name as it is compared, without case and in one form
// (Unicode NFC).
func Value(state, name string) []byte {
	name = strings.ReplaceAll(norm.NFC.String(strings.ToLower(name)), "\x00", "")
	return []byte(state + "\x00" + strings.ToValidUTF8(name[:min(len(name), MaxName)], ""))
}

// ReadEntry reads an entry of the index: a table and an account, 0, the place of the job without a name; and its Value.
func ReadEntry(k, v []byte, o Order) (p Place, state []byte, err error) {
	_, rest, _ := bytes.Cut(k, []byte{0})
	if len(rest) < 8 {
		return p, nil, fmt.Errorf("entry of a job without a time: %q", k)
	}
	state, name, _ := bytes.Cut(v, []byte{0})
	p = Place{Created: binary.BigEndian.Uint64(rest), ID: rest[8:]}
	if o.IsByName() {
		p.Name = name
	}
	return p, state, nil
}
