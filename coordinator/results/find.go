package results

import (
	"bytes"
	"context"
	"errors"
	"time"

	"probity/engine"
	"probity/internal/pipeline"
	"probity/store"
)

// The rows that are searched between two looks at the clock: few at first, then more, as a search may end soon.
const (
	firstFindRows = 1 << 10
	maxFindRows   = 1 << 14
)

// Search selects rows by their address, from Filter.From on.
type Search struct {
	Text  string        // the address contains it, in upper or lower case; empty: any address
	Limit int           // how many rows are enough
	For   time.Duration // how long it searches at least, unless it ends before
}

// Found are the rows that a search found.
type Found struct {
	Rows [][]byte // JSON objects
	Last int64    // the last row that was searched, counted from 1
}

// find is the search of an Assembly.
type find struct {
	term  []byte // in lower case
	limit int
}

// matches reports whether the text of an address is searched for.
func (f *find) matches(mail []byte) bool {
	return len(mail) > 0 && bytes.Contains(bytes.ToLower(mail), f.term)
}

// foundRow is a row on a page that a search found.
type foundRow struct {
	number uint32 // counted from 1
	end    int    // of its object in the text of the page
}

// Span returns the first and the last row of a job, counted from 1, that may have one of some statuses: as its record
// says once it is finished, else all of its rows. It is zero if no row has one.
func Span(j *store.Job, statuses []engine.Status) (span store.Span) {
	all := store.Span{1, j.Rows}
	if len(statuses) == 0 || j.Tally == nil {
		return all
	}
	for _, s := range statuses {
		of, known := j.Tally.Spans[s.String()]
		switch {
		case known && span == store.Span{}:
			span = of
		case known:
			span = store.Span{min(span[0], of[0]), max(span[1], of[1])}
		case j.Counts[s.String()] > 0: // counted before spans were
			return all
		}
	}
	return span
}

var errEnough = errors.New("enough rows were found")

// Find searches the rows from Filter.From on, as JSON objects, until it has found enough or its time is over. It
// decompresses all rows on its way, and joins with their answers only the frames that contain the text. It looks at no
// row outside the Span of the statuses, and reaches the job's last row with the last one there. Of a running job it
// first reads the answers that were added since the last search; if these take all its time, it searches no row.
func (a *Assembly) Find(ctx context.Context, s Search) (Found, error) {
	found, err := a.findInSpan(ctx, s)
	if err == nil && found.Last >= Span(a.job, a.filter.Status)[1] {
		found.Last = a.job.Rows
	}
	return found, err
}

func (a *Assembly) findInSpan(ctx context.Context, s Search) (Found, error) {
	ends := time.Now().Add(s.For)
	a.find = &find{term: bytes.ToLower([]byte(s.Text)), limit: s.Limit}
	span := Span(a.job, a.filter.Status)
	a.filter.From = max(a.filter.From, uint32(span[0]), 1)
	from := a.filter.From - 1
	found := Found{Last: int64(from)}
	take := func(p *page) error {
		start := 0
		for _, row := range p.found {
			found.Rows = append(found.Rows, bytes.TrimRight(bytes.Clone(p.text[start:row.end]), "\n"))
			start = row.end
			if len(found.Rows) == s.Limit {
				found.Last = int64(row.number)
				return errEnough
			}
		}
		return nil
	}
	if a.live != nil {
		whole, err := a.live.catchUp(a.job, a.savedAnswers, ends)
		if err != nil {
			a.live = nil // it is made anew
		}
		if err != nil || !whole {
			return found, err
		}
	}
	next, most := a.firstFrame(from), firstFindRows
	more := func() bool { return next < len(a.upload.Frames) && found.Last < span[1] }
	for first := true; more() && (first || time.Now().Before(ends)); first = false {
		end := a.framesEnd(next, most)
		frames, err := a.framesWithText(ctx, next, end)
		for err == nil && len(frames) > 0 {
			n := 1
			for n < len(frames) && frames[n] == frames[n-1]+1 {
				n++
			}
			err = a.renderFrames(ctx, frames[0], frames[0]+n, take)
			frames = frames[n:]
		}
		if errors.Is(err, errEnough) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		last := &a.upload.Frames[end-1]
		found.Last = int64(last.First) + int64(last.Rows)
		next, most = end, min(4*most, maxFindRows)
	}
	return found, nil
}

// framesWithText returns the frames from next to end that may contain an address which is searched for.
func (a *Assembly) framesWithText(ctx context.Context, next, end int) (frames []int, err error) {
	if len(a.find.term) == 0 || bytes.IndexByte(a.find.term, '"') >= 0 { // a quote may be doubled in the file
		for ; next < end; next++ {
			frames = append(frames, next)
		}
		return frames, nil
	}
	fill := pipeline.Indexes(ctx, end-next, func(p *page, i int) { p.a, p.index = a, next+i })
	take := func(p *page) error {
		if p.hasText {
			frames = append(frames, p.index)
		}
		return nil
	}
	return frames, pipeline.Run(&a.r.pages, a.r.cfg.Workers, fill, (*page).lookForText, take)
}

// lookForText looks for the text of the search anywhere in the page's rows.
func (p *page) lookForText() error {
	text, err := p.fr.Text(p.a.upload, &p.a.dialect, p.index)
	p.hasText = err == nil && bytes.Contains(bytes.ToLower(text), p.a.find.term)
	return err
}
