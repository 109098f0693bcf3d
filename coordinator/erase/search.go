package erase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"probity/coordinator/addresses"
	"probity/coordinator/csvfile"
	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/store"
)

// erasure is the erasing of one address from one job, and where it was found.
type erasure struct {
	*Jobs
	folded string

	finder      addresses.Finder
	inFrame     []bool          // by frame: it contains the address
	row         int64           // one more than the first row of the address; 0 for none
	rows        int64           // rows of the address
	suggestions map[string]bool // suggestions for its spellings
	inNames     bool
	inUpload    bool
	ambiguous   bool // it is in a text that can be read as another address too
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

// search finds the address in the upload of a job and in the names of its answers. It reads neither if its set of
// addresses does not contain the address.
func (e *erasure) search(ctx context.Context, j *store.Job, r *frameReader) error {
	if err := json.Unmarshal(j.Dialect, &e.finder.Dialect); err != nil {
		return fmt.Errorf("dialect: %w", err)
	}
	u, err := e.Files.OpenUpload(j)
	if err != nil {
		return err
	}
	if u.Addresses().MayContain(e.folded) {
		err = e.searchUpload(ctx, u, r)
	}
	if err = errors.Join(err, u.Close()); err != nil {
		return err
	}
	if e.leftFiles, err = e.Files.HasOrphans(j); err != nil {
		return err
	}
	// A suggestion for one of its spellings is in no set.
	if !e.inUpload {
		mayContain, err := e.Files.AnswersMayContain(j, e.folded)
		if err != nil || !mayContain {
			return err
		}
	}
	return e.Files.ReadAnswers(j, func(g *jobfiles.Group) error {
		return g.EachName(func(name string) { e.inNames = e.inNames || e.mustErase(name) })
	})
}

func (e *erasure) searchUpload(ctx context.Context, u *jobfiles.Upload, r *frameReader) error {
	e.inFrame = make([]bool, len(u.Frames))
	e.inUpload = len(e.inPreamble(u)) > 0
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
		if len(r.mentions.rows) > 0 && e.row == 0 {
			e.row = int64(f.First+r.mentions.rows[0]) + 1
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
	asSent := e.finder.Dialect
	asSent.Encoding = csvfile.UTF8 // delimiters are ASCII; a cell is decoded when it is compared
	if err := r.Read(u, &asSent, index); err != nil {
		return err
	}
	e.searchBlock(&r.Block, &r.mentions)
	return nil
}

// searchBlock finds the address in a block.
func (e *erasure) searchBlock(b *csvfile.Block, m *blockMentions) {
	m.ranges, m.rows, m.suggestions = m.ranges[:0], m.rows[:0], m.suggestions[:0]
	row := 0
	visit := func(found addresses.Mention) (taken bool) {
		if found.Folded() != e.folded {
			return false
		}
		m.ranges = append(m.ranges, byteRange{found.From, found.To})
		e.ambiguous = e.ambiguous || found.Ambiguous
		if !found.IsCell {
			return true
		}
		m.rows = append(m.rows, uint32(row))
		if len(m.suggestions) < maxSuggestions {
			if s := e.Suggest(found.Address); s != "" { // it nearly equals the address
				m.suggestions = append(m.suggestions, s)
			}
		}
		return true
	}
	for row = range b.Rows {
		e.finder.InRow(b, row, visit)
	}
}

// inPreamble finds the address in the text before the first row.
func (e *erasure) inPreamble(u *jobfiles.Upload) (ranges []byteRange) {
	e.finder.InText(u.Preamble, 0, len(u.Preamble), func(found addresses.Mention) (taken bool) {
		taken = found.Folded() == e.folded
		if taken {
			ranges = append(ranges, byteRange{found.From, found.To})
			e.ambiguous = e.ambiguous || found.Ambiguous
		}
		return taken
	})
	return ranges
}

// mustErase reports whether a name is the address or one of its suggestions.
func (e *erasure) mustErase(name string) bool {
	if strings.IndexByte(name, '@') < 0 {
		return false
	}
	a, err := engine.Parse(name)
	return e.suggestions[name] || err == nil && a.Folded() == e.folded
}
