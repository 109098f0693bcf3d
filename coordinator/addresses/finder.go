package addresses

import (
	"bytes"
	"slices"
	"strings"

	"probity/coordinator/csvfile"
	"probity/engine"
)

// Finder finds addresses in rows. The zero Finder reads UTF-8.
type Finder struct {
	Dialect   csvfile.Dialect // its encoding is that of the text
	OnlyCells bool            // other text is not searched
}

// Mention is an address in a text, and where it stands.
type Mention struct {
	engine.Address
	From, To  uint32
	IsCell    bool // it is the e-mail cell of its row, quotes included
	Ambiguous bool // the text can be read as another address too
}

// InRow calls visit with the addresses in row i of a block: the e-mail cell, and those that stand by themselves in the
// other text. An e-mail cell that is an address is not searched for others. It reports whether the cell is one.
func (f *Finder) InRow(b *csvfile.Block, i int, visit func(Mention) (taken bool)) (cellIsAddress bool) {
	r := &b.Rows[i]
	rest := r.Start
	if !r.Blank && r.EmailEnd > r.EmailStart {
		a, err := engine.ParseTrimmed(f.decode(b.Email(i)))
		cellIsAddress = err == nil
		if cellIsAddress {
			f.InText(b.Buf, int(r.Start), int(r.EmailStart), visit)
			visit(Mention{Address: a, From: r.EmailStart, To: r.EmailEnd, IsCell: true})
			rest = r.EmailEnd
		}
	}
	f.InText(b.Buf, int(rest), int(r.End), visit)
	return cellIsAddress
}

func (f *Finder) decode(b []byte) string {
	if f.Dialect.IsOneByte() {
		b = f.Dialect.AppendUTF8(nil, b)
	}
	return string(b)
}

// InText calls visit with each address that stands by itself in buf[from:to], as a run of address characters. A run can
// be read as several addresses: until visit takes one, it gets each.
func (f *Finder) InText(buf []byte, from, to int, visit func(Mention) (taken bool)) {
	for at := from; !f.OnlyCells; {
		i := bytes.IndexByte(buf[at:to], '@')
		if i < 0 {
			return
		}
		sign := at + i
		left, right := sign, sign+1
		for left > at && isLocal(buf[left-1]) {
			left--
		}
		for right < to && isDomain(buf[right]) {
			right++
		}
		at = right
		for right > sign+1 && buf[right-1] == '.' {
			right-- // end of a sentence
		}
		f.inRun(buf, left, right, visit)
	}
}

// inRun reads a run of address characters as an address that begins at its start, after quotes and similar characters,
// or after the last separator of a name and a value.
func (f *Finder) inRun(buf []byte, left, right int, visit func(Mention) (taken bool)) {
	run := buf[left:right]
	sign := bytes.LastIndexByte(run, '@')
	starts := [...]int{0, len(run) - len(bytes.TrimLeft(run, "'`*{=/#.")), bytes.LastIndexAny(run[:sign], "=/") + 1}
	var room [len(starts)]Mention
	readings := room[:0]
	for i, n := range starts {
		if slices.Contains(starts[:i], n) {
			continue
		}
		if a, err := engine.Parse(f.decode(run[n:])); err == nil {
			readings = append(readings, Mention{Address: a, From: uint32(left + n), To: uint32(right)})
		}
	}
	for _, m := range readings {
		m.Ambiguous = len(readings) > 1
		if visit(m) {
			return
		}
	}
}

// isLocal reports whether c is a character of an unquoted local part (RFC 5322 section 3.2.3, RFC 6531), except the
// pipe, a delimiter.
func isLocal(c byte) bool {
	return c >= 0x80 || isAlnum(c) || strings.IndexByte("!#$%&'*+-/=?^_`{}~.", c) >= 0
}

func isDomain(c byte) bool { return c >= 0x80 || isAlnum(c) || c == '-' || c == '.' }

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
