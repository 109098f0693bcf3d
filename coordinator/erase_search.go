package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

// erasure is one address on its way out of one job, and where it was found.
type erasure struct {
	c      *Coordinator
	folded string

	dialect  csvfile.Dialect
	frames   []bool          // that name it
	row      int64           // the first row of the address, -1 for none
	rows     int64           // of the address
	hints    map[string]bool // what was suggested instead of it
	preamble bool
	names    bool
	sheet    bool
	left     bool // of an erasure of this job: files that it could not delete
}

const maxHints = 64 // spellings of one address whose suggestions are looked for

func (e *erasure) found() bool { return e.sheet || e.names || e.left }

// span is a run of a block's bytes that names the address.
type span struct{ from, to uint32 }

// mention is what a block says of the address.
type mention struct {
	spans []span
	rows  []uint32 // places in the block of rows whose e-mail cell it is
	hints []string
}

// search finds the address in the sheet and the names of a job.
func (e *erasure) search(ctx context.Context, j *store.Job) error {
	if err := json.Unmarshal(j.Sheet, &e.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	j, err := e.c.takeOverUpload(j)
	if err != nil {
		return err
	}
	u, err := e.c.openUpload(j)
	if err != nil {
		return err
	}
	err = e.searchSheet(ctx, u)
	if err = errors.Join(err, u.Close()); err != nil {
		return err
	}
	if e.left, err = e.c.leftOver(j); err != nil {
		return err
	}
	return e.searchAnswers(j)
}

// searchedFrame is a frame of the sheet on its way through the search.
type searchedFrame struct {
	index int
	fr    frameReader
	said  mention
}

func (e *erasure) searchSheet(ctx context.Context, u *jobfiles.Upload) error {
	next := 0
	e.frames, e.row = make([]bool, len(u.Frames)), -1
	e.preamble = len(e.mentions(nil, u.Preamble, 0, len(u.Preamble))) > 0
	e.sheet = e.preamble
	fill := func(f *searchedFrame) error {
		if next == len(u.Frames) {
			return io.EOF
		}
		f.index = next
		next++
		return ctx.Err()
	}
	work := func(f *searchedFrame) (err error) { return e.read(u, f.index, &f.fr, &f.said) }
	take := func(f *searchedFrame) error {
		if len(f.said.spans) == 0 {
			return nil
		}
		e.sheet, e.frames[f.index] = true, true
		e.rows += int64(len(f.said.rows))
		if len(f.said.rows) > 0 && e.row < 0 {
			e.row = int64(u.Frames[f.index].First + f.said.rows[0])
		}
		for _, h := range f.said.hints {
			if len(e.hints) < maxHints {
				e.hints[h] = true
			}
		}
		return nil
	}
	return inOrder(new(spare[searchedFrame]), e.c.workers, fill, work, take)
}

// read reads a frame in the bytes it was sent in, and finds the address there.
func (e *erasure) read(u *jobfiles.Upload, index int, fr *frameReader, m *mention) error {
	asSent := e.dialect
	asSent.Encoding = csvfile.UTF8 // ASCII delimits, and the text of a cell is turned when it is looked at
	if err := fr.read(u, &asSent, index); err != nil {
		return err
	}
	e.searchBlock(&fr.block, m)
	return nil
}

// searchBlock finds the address in a block. The e-mail cell counts by its folded form, other text by the addresses in it;
// an e-mail cell that is another address is left alone, whatever it contains.
func (e *erasure) searchBlock(b *csvfile.Block, m *mention) {
	m.spans, m.rows, m.hints = m.spans[:0], m.rows[:0], m.hints[:0]
	for i := range b.Rows {
		r := &b.Rows[i]
		rest := r.Start
		if r.MailEnd > r.Mail {
			if a, err := engine.ParseTrimmed(e.text(b.Mail(i))); err == nil {
				m.spans = e.mentions(m.spans, b.Buf, int(r.Start), int(r.Mail))
				if a.Folded() == e.folded {
					m.spans = append(m.spans, span{r.Mail, r.MailEnd})
					m.rows = append(m.rows, uint32(i))
					m.hints = e.hint(m.hints, a)
				}
				rest = r.MailEnd
			}
		}
		m.spans = e.mentions(m.spans, b.Buf, int(rest), int(r.End))
	}
}

// hint adds what is suggested instead of a spelling of the address: it is nearly the address.
func (e *erasure) hint(dst []string, a engine.Address) []string {
	if e.c.known() == nil || len(dst) >= maxHints {
		return dst
	}
	if s := e.c.known().Suggest(a); s != "" {
		dst = append(dst, s)
	}
	return dst
}

func (e *erasure) text(b []byte) string {
	if e.dialect.Encoding == csvfile.Windows1252 {
		b = e.dialect.AppendUTF8(nil, b)
	}
	return string(b)
}

// mentions finds the address by itself in the text buf[from:to]: as a run of the characters that addresses are made of.
func (e *erasure) mentions(dst []span, buf []byte, from, to int) []span {
	for at := from; ; {
		i := bytes.IndexByte(buf[at:to], '@')
		if i < 0 {
			return dst
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
			right-- // the end of a sentence
		}
		if n := e.mentioned(e.text(buf[left:right])); n >= 0 {
			dst = append(dst, span{uint32(left + n), uint32(right)})
		}
	}
}

// mentioned tells where in a run of address characters the address begins, -1 where it does not: at the start, after
// quotes and the like, or after the last sign that parts a name from a value.
func (e *erasure) mentioned(run string) int {
	sign := strings.LastIndexByte(run, '@')
	starts := [...]int{0, len(run) - len(strings.TrimLeft(run, "'`*{=/#.")), strings.LastIndexAny(run[:sign], "=/") + 1}
	for i, n := range starts {
		if i > 0 && n == 0 {
			continue
		}
		if a, err := engine.Parse(run[n:]); err == nil && a.Folded() == e.folded {
			return n
		}
	}
	return -1
}

// isLocal reports a character of an unquoted local part (RFC 5322 section 3.2.3, RFC 6531), save the pipe, which delimits.
func isLocal(c byte) bool {
	return c >= 0x80 || isAlnum(c) || strings.IndexByte("!#$%&'*+-/=?^_`{}~.", c) >= 0
}

func isDomain(c byte) bool { return c >= 0x80 || isAlnum(c) || c == '-' || c == '.' }

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// isNamed reports that a name is the address, or was suggested instead of it.
func (e *erasure) isNamed(name string) bool {
	if strings.IndexByte(name, '@') < 0 {
		return false
	}
	a, err := engine.Parse(name)
	return e.hints[name] || err == nil && a.Folded() == e.folded
}
