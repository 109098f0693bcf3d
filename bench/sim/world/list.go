package world

import (
	"bufio"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"probity/bench/sim/persona"
)

// ListHeader is the first line of every list.
const ListHeader = "id,first_name,last_name,email,company,city,notes"

// flushAt bounds the list writer's buffer, in bytes.
const flushAt = 64 << 10

// Rows per thousand that are not an ordinary address. Typos of major domains
// are domains of the world, with their share of World.rowDomains.
const (
	junkPerMille      = 10
	blankPerMille     = 5
	duplicatePerMille = 30
	spacedPerMille    = 5 // white space around the address
)

// foreignRatio: one company address in foreignRatio has non-ASCII letters.
const foreignRatio = 1000

// WriteList writes a CSV list of rows addresses of w. The same world, rows and
// seed give the same bytes. Memory does not grow with rows.
func WriteList(out io.Writer, w *World, rows int, seed uint64) error {
	rg := rowGenerator{World: w, seed: mixBits(seed ^ w.config.Seed<<1)}
	buf := append(make([]byte, 0, flushAt+4096), ListHeader+"\n"...)
	for i := range rows {
		buf = rg.appendRow(buf, i)
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

// WriteHomes writes a CSV list with one address of each of the first rows domains of Config.Homes, or of all if there
// are fewer.
func WriteHomes(out io.Writer, w *World, rows int) error {
	rg := rowGenerator{World: w, seed: mixBits(w.config.Seed ^ hashString("homes"))}
	b := bufio.NewWriterSize(out, flushAt)
	if _, err := b.WriteString(ListHeader + "\n"); err != nil {
		return err
	}
	var line []byte
	for i := range min(rows, w.config.Homes) {
		p := rg.personAt(i)
		p.domain = w.byName[homeName(i)]
		line = rg.appendCells(line[:0], i, p, func(b []byte) []byte { return appendAddress(b, p) })
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	return b.Flush()
}

// WriteHostile writes a CSV list with rows addresses of the domains of Config.Hostile, as many of each, in random
// order. Half of the mailboxes exist. The same world, rows and seed give the same bytes.
func WriteHostile(out io.Writer, w *World, rows int, seed uint64) error {
	rg := rowGenerator{World: w, seed: mixBits(seed ^ w.config.Seed ^ hashString("hostile"))}
	b := bufio.NewWriterSize(out, flushAt)
	if _, err := b.WriteString(ListHeader + "\n"); err != nil {
		return err
	}
	if len(w.hostile) == 0 {
		return b.Flush()
	}
	var line []byte
	for i, at := range rand.New(rand.NewPCG(seed, uint64(rows))).Perm(rows) {
		p := rg.personAt(at)
		p.domain = &w.domains[w.hostile[at%len(w.hostile)]]
		p.state = [...]persona.Mailbox{persona.Present, persona.Absent}[at/len(w.hostile)%2]
		line = rg.appendCells(line[:0], i, p, func(b []byte) []byte { return appendAddress(b, p) })
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	return b.Flush()
}

// rowGenerator makes rows by number.
type rowGenerator struct {
	*World
	seed uint64
}

// person is the person of one row.
type person struct {
	first  string
	last   [6]byte
	domain *Domain
	state  persona.Mailbox // wanted of the mailbox
	random uint64
}

func (rg *rowGenerator) personAt(i int) person {
	h := mixBits(rg.seed ^ uint64(i))
	random := mixBits(h ^ 2)
	return person{
		first:  pick(firstNames, h>>40),
		last:   lastName(h),
		domain: &rg.domains[rg.rowDomains[mixBits(h^1)%rowsInTable]],
		state:  wantedState(random >> 48),
		random: random,
	}
}

func lastName(random uint64) (name [6]byte) {
	for i := 0; i < len(name); i += 2 {
		name[i], name[i+1] = consonants[random%16], vowels[random>>4%5]
		random >>= 12
	}
	return name
}

func pick(words []string, random uint64) string { return words[random%uint64(len(words))] }

// appendRow appends line i: seven cells and a line feed.
func (rg *rowGenerator) appendRow(b []byte, i int) []byte {
	p := rg.personAt(i)
	return rg.appendCells(b, i, p, func(b []byte) []byte { return rg.appendEmail(b, i, p) })
}

// appendCells appends a line of p; email appends its e-mail cell.
func (rg *rowGenerator) appendCells(b []byte, i int, p person, email func([]byte) []byte) []byte {
	b = strconv.AppendInt(b, int64(i)+1, 10)
	b = appendTitle(append(b, ','), p.first)
	b = appendTitle(append(b, ','), string(p.last[:]))
	b = email(append(b, ','))
	b = appendCompany(append(b, ','), p)
	b = append(append(b, ','), pick(cities, p.random>>40)...)
	b = appendNote(append(b, ','), p)
	return append(b, '\n')
}

// appendEmail appends the e-mail cell of row i.
func (rg *rowGenerator) appendEmail(b []byte, i int, p person) []byte {
	kind := int(mixBits(p.random) % 1000)
	kind -= junkPerMille
	if kind < 0 {
		return appendJunk(b, p)
	}
	kind -= blankPerMille
	if kind < 0 {
		return append(b, [...]string{"", "", " "}[p.random%3]...)
	}
	kind -= duplicatePerMille
	if kind < 0 && i > 0 {
		return appendVariant(b, rg.personAt(int(mixBits(p.random^3)%uint64(i))), p.random)
	}
	kind -= spacedPerMille
	if kind < 0 {
		return append(appendAddress(append(b, ' '), p), ' ')
	}
	if p.random%25 == 0 {
		return appendVariant(b, p, p.random)
	}
	return appendAddress(b, p)
}

// appendAddress appends p's address in its plain form.
func appendAddress(b []byte, p person) []byte {
	b = append(appendLocal(b, p), '@')
	return append(b, shownName(p.domain, p.random)...)
}

// shownName is the domain as its users write it: A-label or U-label.
func shownName(d *Domain, random uint64) string {
	if !strings.HasPrefix(d.Name, "xn--") || random&8 != 0 {
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
// name, rarely with non-ASCII letters, and the number of a mailbox of the
// wanted state.
func appendLocal(b []byte, p person) []byte {
	if !p.domain.public && p.random>>16%25 == 0 {
		return append(b, pick(roleNames, p.random>>32)...)
	}
	at, h := len(b), p.domain.key
	if !p.domain.public && p.random>>4%foreignRatio == 0 {
		b = append(b, pick(foreignNames, p.random>>12)...)
	} else {
		b = append(b, p.first...)
	}
	if p.domain.foldsDots && p.random>>20%300 == 0 {
		b = append(b, '_') // gmail.com has no such mailbox names
	} else if !p.domain.noDots {
		b = append(b, '.')
	}
	b = append(b, p.last[:]...)
	for _, c := range b[at:] {
		if c != '.' || !p.domain.foldsDots {
			h = hashByte(h, c)
		}
	}
	return strconv.AppendInt(b, int64(numberFor(h, p.state, p.random)), 10)
}

// wantedState gives the mix of mailboxes in a list of average quality.
func wantedState(random uint64) persona.Mailbox {
	switch n := random % 100; {
	case n < 80:
		return persona.Present
	case n < 82:
		return persona.Full
	case n < 84:
		return persona.Disabled
	case n < 85:
		return persona.Moved
	}
	return persona.Absent
}

// appendVariant appends another spelling of the same mailbox: capitals, and at
// gmail.com dots and tags.
func appendVariant(b []byte, p person, random uint64) []byte {
	at := len(b)
	b = appendAddress(b, p)
	switch random >> 12 % 3 {
	case 0:
		upper(b[at : at+1])
	case 1:
		upper(b[at:])
	}
	if p.domain.foldsDots && random>>14&1 == 0 {
		// One more dot after the first letter: the mailbox does not change.
		b = append(b, 0)
		copy(b[at+2:], b[at+1:])
		b[at+1] = '.'
	}
	return b
}

// upper changes ASCII letters to upper case, in place.
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

// Addresses returns the first n addresses of a persona's domains, all different, in the mix of a list; the same for the
// same world. It returns none for an unknown persona.
func (w *World) Addresses(kind string, n int) []string {
	rg := rowGenerator{World: w, seed: mixBits(w.config.Seed ^ hashString(kind))}
	var mailDomains []*Domain
	for i := range w.domains {
		if w.domains[i].Persona.Name == kind {
			mailDomains = append(mailDomains, &w.domains[i])
		}
	}
	seen := map[string]bool{}
	var all []string
	for i := 0; len(all) < n && len(mailDomains) > 0; i++ {
		p := rg.personAt(i)
		p.domain = mailDomains[i%len(mailDomains)]
		if a := string(appendAddress(nil, p)); !seen[a] {
			seen[a] = true
			all = append(all, a)
		}
	}
	return all
}
