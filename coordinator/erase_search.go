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

	dialect     csvfile.Dialect
	inFrame     []bool          // that name it
	row         int64           // the first row of the address, -1 for none
	rows        int64           // of the address
	suggestions map[string]bool // what was suggested instead of it
	inPreamble  bool
	inNames     bool
	inUpload    bool
	leftFiles   bool // of an erasure of this job: files that it could not delete
}

const maxSuggestions = 64 // spellings of one address whose suggestions are looked for

func (e *erasure) isFound() bool { return e.inUpload || e.inNames || e.leftFiles }

// byteRange is a run of a block's bytes that names the address.
type byteRange struct{ from, to uint32 }

// blockMentions is what a block says of the address.
type blockMentions struct {
	ranges      []byteRange
	rows        []uint32 // places in the block of rows whose e-mail cell it is
	suggestions []string
}

// search finds the address in the upload and the names of a job.
func (e *erasure) search(ctx context.Context, j *store.Job) error {
	if err := json.Unmarshal(j.Dialect, &e.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	j, err := e.c.migrateUpload(j)
	if err != nil {
		return err
	}
	u, err := e.c.openUpload(j)
	if err != nil {
		return err
	}
	err = e.searchUpload(ctx, u)
	if err = errors.Join(err, u.Close()); err != nil {
		return err
	}
	if e.leftFiles, err = e.c.hasOrphans(j); err != nil {
		return err
	}
	return e.searchAnswers(j)
}

// searchedFrame is a frame of the upload on its way through the search.
type searchedFrame struct {
	index    int
	fr       frameReader
	mentions blockMentions
}

func (e *erasure) searchUpload(ctx context.Context, u *jobfiles.Upload) error {
	next := 0
	e.inFrame, e.row = make([]bool, len(u.Frames)), -1
	e.inPreamble = len(e.findMentions(nil, u.Preamble, 0, len(u.Preamble))) > 0
	e.inUpload = e.inPreamble
	fill := func(f *searchedFrame) error {
		if next == len(u.Frames) {
			return io.EOF
		}
		f.index = next
		next++
		return ctx.Err()
	}
	work := func(f *searchedFrame) (err error) { return e.searchFrame(u, f.index, &f.fr, &f.mentions) }
	take := func(f *searchedFrame) error {
		if len(f.mentions.ranges) == 0 {
			return nil
		}
		e.inUpload, e.inFrame[f.index] = true, true
		e.rows += int64(len(f.mentions.rows))
		if len(f.mentions.rows) > 0 && e.row < 0 {
			e.row = int64(u.Frames[f.index].First + f.mentions.rows[0])
		}
		for _, h := range f.mentions.suggestions {
			if len(e.suggestions) < maxSuggestions {
				e.suggestions[h] = true
			}
		}
		return nil
	}
	return inOrder(new(bufferPool[searchedFrame]), e.c.workers, fill, work, take)
}

// searchFrame reads a frame in the bytes it was sent in, and finds the address there.
func (e *erasure) searchFrame(u *jobfiles.Upload, index int, fr *frameReader, m *blockMentions) error {
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
func (e *erasure) searchBlock(b *csvfile.Block, m *blockMentions) {
	m.ranges, m.rows, m.suggestions = m.ranges[:0], m.rows[:0], m.suggestions[:0]
	for i := range b.Rows {
		r := &b.Rows[i]
		rest := r.Start
		if r.EmailEnd > r.EmailStart {
			if a, err := engine.ParseTrimmed(e.text(b.Email(i))); err == nil {
				m.ranges = e.findMentions(m.ranges, b.Buf, int(r.Start), int(r.EmailStart))
				if a.Folded() == e.folded {
					m.ranges = append(m.ranges, byteRange{r.EmailStart, r.EmailEnd})
					m.rows = append(m.rows, uint32(i))
					m.suggestions = e.appendSuggestion(m.suggestions, a)
				}
				rest = r.EmailEnd
			}
		}
		m.ranges = e.findMentions(m.ranges, b.Buf, int(rest), int(r.End))
	}
}

// appendSuggestion adds what is suggested instead of a spelling of the address: it is nearly the address.
func (e *erasure) appendSuggestion(dst []string, a engine.Address) []string {
	if e.c.currentLists() == nil || len(dst) >= maxSuggestions {
		return dst
	}
	if s := e.c.currentLists().Suggest(a); s != "" {
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

// findMentions finds the address by itself in the text buf[from:to]: as a run of the characters that addresses are made of.
func (e *erasure) findMentions(dst []byteRange, buf []byte, from, to int) []byteRange {
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
		if n := e.addressStart(e.text(buf[left:right])); n >= 0 {
			dst = append(dst, byteRange{uint32(left + n), uint32(right)})
		}
	}
}

// addressStart tells where in a run of address characters the address begins, -1 where it does not: at the start, after
// quotes and the like, or after the last sign that parts a name from a value.
func (e *erasure) addressStart(run string) int {
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

// mustErase reports that a name is the address, or was suggested instead of it.
func (e *erasure) mustErase(name string) bool {
	if strings.IndexByte(name, '@') < 0 {
		return false
	}
	a, err := engine.Parse(name)
	return e.suggestions[name] || err == nil && a.Folded() == e.folded
}
