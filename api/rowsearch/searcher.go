package rowsearch

import (
	"context"
	"time"

	"probity/api/httpd"
	"probity/internal/pipeline"
)

// Time is how long a search goes on: the rest of what a page waits for an answer is for the last rows and the way.
const Time = 50 * time.Millisecond

const (
	maxSearches = 2
	maxWait     = 8 * time.Second // for other searches
)

// Searcher runs searches.
type Searcher struct {
	slots chan struct{} // one for each search in progress
	turns pipeline.Turns
}

// New makes a Searcher.
func New() *Searcher { return &Searcher{slots: make(chan struct{}, maxSearches)} }

// Run runs a search of an account once others have ended, at most maxWait from now.
func (s *Searcher) Run(ctx context.Context, account string, search func() error) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	done, err := s.turns.Begin(ctx, account)
	if err != nil {
		return httpd.Busy("Other searches of your account are under way")
	}
	defer done()
	if err := pipeline.Acquire(ctx, s.slots); err != nil {
		return httpd.Busy("The server is busy with other searches")
	}
	defer func() { <-s.slots }()
	return search()
}
