package sim

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// ListHeader is the first line of every list.
const ListHeader = "id,first_name,last_name,email,company,city,notes"

// flushAt bounds the list writer's buffer, in bytes.
const flushAt = 64 << 10

// Of a thousand rows, so many are no ordinary address. Typos of great domains
// are domains of the world, with their share of World.slots.
const (
	junkOf      = 10
	blankOf     = 5
	duplicateOf = 30
	spacedOf    = 5 // white space around the address
)

// foreignOf: one company address in so many has letters beyond ASCII.
const foreignOf = 1000

// WriteList writes a CSV list of so many rows of w's addresses. The same world,
// rows and seed give the same bytes. Memory does not grow with rows.
func WriteList(out io.Writer, w *World, rows int, seed uint64) error {
	l := lister{World: w, seed: mix(seed ^ w.config.Seed<<1)}
	buf := append(make([]byte, 0, flushAt+4096), ListHeader+"\n"...)
	for i := range rows {
		buf = l.appendRow(buf, i)
		if len(buf) < flushAt {
			continue
		}
		if _, err := out.Write(buf); err != nil {
			return err
		}
		buf = buf[:0]
	}
	_, err := out.Write(buf)
	return err
}

// WriteHomes writes a CSV list with one address of each of the first rows domains of Config.Homes; of all of them when there are fewer.
func WriteHomes(out io.Writer, w *World, rows int) error {
	l := lister{World: w, seed: mix(w.config.Seed ^ hashString("homes"))}
	b := bufio.NewWriterSize(out, flushAt)
	if _, err := b.WriteString(ListHeader + "\n"); err != nil {
		return err
	}
	var line []byte
	for i := range min(rows, w.config.Homes) {
		p := l.personAt(i)
		p.domain = w.byName[homeName(i)]
		line = l.appendCells(line[:0], i, p, func(b []byte) []byte { return appendAddress(b, p) })
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	return b.Flush()
}

// lister makes rows by number.
type lister struct {
	*World
	seed uint64
}

// person is who stands in one row.
type person struct {
	first  string
	last   [6]byte
	domain *Domain
	draw   uint64
}

func (l *lister) personAt(i int) person {
	h := mix(l.seed ^ uint64(i))
	return person{
		first:  pick(firstNames, h>>40),
		last:   lastName(h),
		domain: &l.domains[l.slots[mix(h^1)%rowsInTable]],
		draw:   mix(h ^ 2),
	}
}

func lastName(draw uint64) (name [6]byte) {
	for i := 0; i < len(name); i += 2 {
		name[i], name[i+1] = consonants[draw%16], vowels[draw>>4%5]
		draw >>= 12
	}
	return name
}

func pick(words []string, draw uint64) string { return words[draw%uint64(len(words))] }

// appendRow appends line i: seven cells and a line feed.
func (l *lister) appendRow(b []byte, i int) []byte {
	p := l.personAt(i)
	return l.appendCells(b, i, p, func(b []byte) []byte { return l.appendEmail(b, i, p) })
}

// appendCells appends a line of p with the e-mail cell that email appends.
func (l *lister) appendCells(b []byte, i int, p person, email func([]byte) []byte) []byte {
	b = strconv.AppendInt(b, int64(i)+1, 10)
	b = appendTitle(append(b, ','), p.first)
	b = appendTitle(append(b, ','), string(p.last[:]))
	b = email(append(b, ','))
	b = appendCompany(append(b, ','), p)
	b = append(append(b, ','), pick(cities, p.draw>>40)...)
	b = appendNote(append(b, ','), p)
	return append(b, '\n')
}

// appendEmail appends the e-mail cell of row i.
func (l *lister) appendEmail(b []byte, i int, p person) []byte {
	kind := int(mix(p.draw) % 1000)
	if kind -= junkOf; kind < 0 {
		return appendJunk(b, p)
	}
	if kind -= blankOf; kind < 0 {
		return append(b, [...]string{"", "", " "}[p.draw%3]...)
	}
	if kind -= duplicateOf; kind < 0 && i > 0 {
		return appendVariant(b, l.personAt(int(mix(p.draw^3)%uint64(i))), p.draw)
	}
	if kind -= spacedOf; kind < 0 {
		return append(appendAddress(append(b, ' '), p), ' ')
	}
	if p.draw%25 == 0 {
		return appendVariant(b, p, p.draw)
	}
	return appendAddress(b, p)
}

// appendAddress appends p's address in its plain form.
func appendAddress(b []byte, p person) []byte {
	b = append(appendLocal(b, p), '@')
	return append(b, shownName(p.domain, p.draw)...)
}

// shownName is the domain as its people write it.
func shownName(d *Domain, draw uint64) string {
	if !strings.HasPrefix(d.Name, "xn--") || draw&8 != 0 {
		return d.Name
	}
	for _, pair := range internationalDomains {
		if pair[1] == d.Name {
			return pair[0]
		}
	}
	return d.Name
}

// appendLocal appends a local part: a role at one company address in 25, else a
// name, which may be written as at home, and the number of a mailbox of the
// wanted state.
func appendLocal(b []byte, p person) []byte {
	if !p.domain.public && p.draw>>16%25 == 0 {
		return append(b, pick(roleNames, p.draw>>32)...)
	}
	at, h := len(b), p.domain.key
	if !p.domain.public && p.draw>>4%foreignOf == 0 {
		b = append(b, pick(foreignNames, p.draw>>12)...)
	} else {
		b = append(b, p.first...)
	}
	if p.domain.folds && p.draw>>20%300 == 0 {
		b = append(b, '_') // gmail.com has no such mailbox names
	} else if !p.domain.compact {
		b = append(b, '.')
	}
	b = append(b, p.last[:]...)
	for _, c := range b[at:] {
		if c != '.' || !p.domain.folds {
			h = step(h, c)
		}
	}
	return strconv.AppendInt(b, int64(numberFor(h, wanted(p.draw>>48), p.draw)), 10)
}

// wanted is the mix of mailboxes in a list of middling quality.
func wanted(draw uint64) Mailbox {
	switch n := draw % 100; {
	case n < 80:
		return Present
	case n < 82:
		return Full
	case n < 84:
		return Disabled
	case n < 85:
		return Moved
	}
	return Absent
}

// appendVariant appends the same mailbox in other letters: capitals, and at
// gmail.com dots and tags.
func appendVariant(b []byte, p person, draw uint64) []byte {
	at := len(b)
	b = appendAddress(b, p)
	switch draw >> 12 % 3 {
	case 0:
		upper(b[at : at+1])
	case 1:
		upper(b[at:])
	}
	if p.domain.folds && draw>>14&1 == 0 {
		// One more dot after the first letter: the mailbox does not change.
		b = append(b, 0)
		copy(b[at+2:], b[at+1:])
		b[at+1] = '.'
	}
	return b
}

// upper turns ASCII letters into capitals, in place.
func upper(b []byte) {
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
}

func appendTitle(b []byte, word string) []byte {
	b = append(b, word...)
	upper(b[len(b)-len(word):][:1])
	return b
}

// Addresses are the first n addresses of a persona's domains, all different, in the mix of a list: the same for the same
// world. Fewer where the world knows no such persona.
func (w *World) Addresses(persona string, n int) []string {
	l := lister{World: w, seed: mix(w.config.Seed ^ hashString(persona))}
	var homes []*Domain
	for i := range w.domains {
		if w.domains[i].Persona.Name == persona {
			homes = append(homes, &w.domains[i])
		}
	}
	seen := map[string]bool{}
	var all []string
	for i := 0; len(all) < n && len(homes) > 0; i++ {
		p := l.personAt(i)
		p.domain = homes[i%len(homes)]
		if a := string(appendAddress(nil, p)); !seen[a] {
			seen[a] = true
			all = append(all, a)
		}
	}
	return all
}
