package erase

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

// erasure is the erasing of one address from one job, and where it was found.
type erasure struct {
	*Jobs
	folded string

	dialect     csvfile.Dialect
	inFrame     []bool          // by frame: it contains the address
	row         int64           // first row of the address, -1 for none
	rows        int64           // rows of the address
	suggestions map[string]bool // suggestions for its spellings
	inNames     bool
	inUpload    bool
	leftFiles   bool // an earlier erasure left files that it could not delete
}

const maxSuggestions = 64 // suggestions of one address that are erased

// byteRange is a range of a block's bytes that contains the address.
type byteRange struct{ from, to uint32 }

// blockMentions is where a block contains the address.
type blockMentions struct {
	ranges      []byteRange
	rows        []uint32 // rows of the block with the address in the e-mail cell
	suggestions []string
}

// frameReader reads frames one after another, and finds the address in them, in memory that it keeps.
type frameReader struct {
	jobfiles.FrameReader
	mentions blockMentions
}

// search finds the address in the upload of a job and in the names of its answers.
func (e *erasure) search(ctx context.Context, j *store.Job, r *frameReader) error {
	if err := json.Unmarshal(j.Dialect, &e.dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	u, err := e.Files.OpenUpload(j)
	if err != nil {
		return err
	}
	err = e.searchUpload(ctx, u, r)
	if err = errors.Join(err, u.Close()); err != nil {
		return err
	}
	if e.leftFiles, err = e.Files.HasOrphans(j); err != nil {
		return err
	}
	return e.Files.ReadAnswers(j, func(g *jobfiles.Group) error {
		return g.EachName(func(name string) { e.inNames = e.inNames || e.mustErase(name) })
	})
}

func (e *erasure) searchUpload(ctx context.Context, u *jobfiles.Upload, r *frameReader) error {
	e.inFrame, e.row = make([]bool, len(u.Frames)), -1
	e.inUpload = len(e.findMentions(nil, u.Preamble, 0, len(u.Preamble))) > 0
	for i, f := range u.Frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.searchFrame(u, i, r); err != nil {
			return err
		}
		if len(r.mentions.ranges) == 0 {
			continue
		}
		e.inUpload, e.inFrame[i] = true, true
		e.rows += int64(len(r.mentions.rows))
		if len(r.mentions.rows) > 0 && e.row < 0 {
			e.row = int64(f.First + r.mentions.rows[0])
		}
		for _, suggestion := range r.mentions.suggestions {
			if len(e.suggestions) < maxSuggestions {
				e.suggestions[suggestion] = true
			}
		}
	}
	return nil
}

// searchFrame reads a frame in its original encoding and finds the address in it.
func (e *erasure) searchFrame(u *jobfiles.Upload, index int, r *frameReader) error {
	asSent := e.dialect
	asSent.Encoding = csvfile.UTF8 // delimiters are ASCII; a cell is decoded when it is compared
	if err := r.Read(u, &asSent, index); err != nil {
		return err
	}
	e.searchBlock(&r.Block, &r.mentions)
	return nil
}

// searchBlock finds the address in a block. The e-mail cell is compared in folded form; other text is searched for
// addresses. An e-mail cell with another address is not searched.
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
					if len(m.suggestions) < maxSuggestions {
						if s := e.Suggest(a); s != "" { // it nearly equals the address
							m.suggestions = append(m.suggestions, s)
						}
					}
				}
				rest = r.EmailEnd
			}
		}
		m.ranges = e.findMentions(m.ranges, b.Buf, int(rest), int(r.End))
	}
}

func (e *erasure) text(b []byte) string {
	if e.dialect.IsOneByte() {
		b = e.dialect.AppendUTF8(nil, b)
	}
	return string(b)
}

// findMentions finds the address in buf[from:to] where it stands by itself, as a run of address characters.
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
			right-- // end of a sentence
		}
		if n := e.addressStart(e.text(buf[left:right])); n >= 0 {
			dst = append(dst, byteRange{uint32(left + n), uint32(right)})
		}
	}
}

// addressStart returns where in a run of address characters the address begins, or -1: at the start, after quotes and
// similar characters, or after the last separator of a name and a value.
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

// isLocal reports whether c is a character of an unquoted local part (RFC 5322 section 3.2.3, RFC 6531), except the
// pipe, a delimiter.
func isLocal(c byte) bool {
	return c >= 0x80 || isAlnum(c) || strings.IndexByte("!#$%&'*+-/=?^_`{}~.", c) >= 0
}

func isDomain(c byte) bool { return c >= 0x80 || isAlnum(c) || c == '-' || c == '.' }

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// mustErase reports whether a name is the address or one of its suggestions.
func (e *erasure) mustErase(name string) bool {
	if strings.IndexByte(name, '@') < 0 {
		return false
	}
	a, err := engine.Parse(name)
	return e.suggestions[name] || err == nil && a.Folded() == e.folded
}
