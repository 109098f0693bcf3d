package rowsearch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"probity/api/httpd"
	"probity/internal/pipeline"
)

// The bounds of a search: its duration, searches at one time, bytes of a line.
const (
	Timeout     = 8 * time.Second
	maxSearches = 2
	maxLine     = 1 << 20
)

var errLimitReached = errors.New("enough was found")

// Searcher runs searches.
type Searcher struct {
	slots chan struct{} // one for each search in progress
	turns pipeline.Turns
}

// New makes a Searcher.
func New() *Searcher { return &Searcher{slots: make(chan struct{}, maxSearches)} }

// Scan passes the lines that write writes to visit, until visit returns an error, or for Timeout. whole reports whether
// all were visited.
func (s *Searcher) Scan(ctx context.Context, account string, write func(context.Context, io.Writer) error,
	visit func([]byte) error) (whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	done, err := s.turns.Begin(ctx, account)
	if err != nil {
		return false, httpd.Busy("Other searches of your account are under way")
	}
	defer done()
	if err := pipeline.Acquire(ctx, s.slots); err != nil {
		return false, httpd.Busy("The server is busy with other searches")
	}
	defer func() { <-s.slots }()
	r, w := io.Pipe()
	var writer sync.WaitGroup
	writer.Go(func() { w.CloseWithError(write(ctx, w)) })
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for err == nil && lines.Scan() {
		err = visit(lines.Bytes())
	}
	cancel()
	err = errors.Join(err, lines.Err(), r.CloseWithError(errLimitReached))
	writer.Wait()
	if errors.Is(err, errLimitReached) || errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}
