package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"probity/store"
)

// The bounds of event streams: each is looked after once a second. A page that gets none asks again and again instead.
const (
	maxFeeds        = 512
	feedsPerAccount = 16
	feedEvery       = time.Second
	feedAlive       = 5  // looks without news until a sign of life is sent
	feedJobs        = 20 // the newest jobs that a stream follows
)

// feeds knows the streams that are open.
type feeds struct {
	mu   sync.Mutex // guards both
	all  int
	mine map[string][]*feed // by account, the oldest first
}

// enter makes room for a stream. One too many of an account ends its oldest, which is most likely of a page that was
// left: that a browser is gone shows only when something is written to it.
func (f *feeds) enter(account string, one *feed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all >= maxFeeds {
		return false
	}
	if f.mine == nil {
		f.mine = make(map[string][]*feed)
	}
	open := f.mine[account]
	if len(open) >= feedsPerAccount {
		open[len(open)-feedsPerAccount].stop()
	}
	f.all++
	f.mine[account] = append(open, one)
	return true
}

func (f *feeds) leave(account string, one *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	f.mine[account] = slices.DeleteFunc(f.mine[account], func(o *feed) bool { return o == one })
	if len(f.mine[account]) == 0 {
		delete(f.mine, account)
	}
}

// feed is one stream of server-sent events: the account's credits and newest jobs, whenever they change.
type feed struct {
	srv     *Server
	account string
	token   string
	w       io.Writer
	ctx     context.Context
	stop    context.CancelFunc
	last    []byte
	silent  int
}

// getEvents serves a stream that ends with the session, the server or the page, whichever is first.
func (x *exchange) getEvents() error {
	s, account := x.srv, x.who.User.ID
	r, w := io.Pipe()
	f := &feed{srv: s, account: account, token: x.visit.token, w: w}
	f.ctx, f.stop = context.WithCancel(s.leaving)
	if !s.dash.feeds.enter(account, f) {
		f.stop()
		return busy("There are too many event streams open")
	}
	h := &x.ctx.Response.Header
	h.SetContentType("text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies that know it pass events on as they come
	s.streams.Go(func() {
		defer s.dash.feeds.leave(account, f)
		defer f.stop()
		_ = w.CloseWithError(f.run())
	})
	x.ctx.Response.SetBodyStream(r, -1)
	return nil
}

// run writes until it is stopped, the session has ended or the client has gone. It ends with io.EOF where the stream
// should end well.
func (f *feed) run() error {
	tick := time.NewTicker(feedEvery)
	defer tick.Stop()
	for {
		if _, _, err := f.srv.rooms.Store.Session(f.token, f.srv.now()); err != nil {
			_, err := io.WriteString(f.w, "event: ended\ndata: {}\n\n")
			return err
		}
		if err := f.look(); err != nil {
			return err
		}
		select {
		case <-f.ctx.Done():
			return io.EOF
		case <-tick.C:
		}
	}
}

// look sends what is so, if it is not what was sent last.
func (f *feed) look() error {
	now, err := f.state()
	if err != nil {
		return err
	}
	if f.silent++; bytes.Equal(now, f.last) {
		if f.silent < feedAlive {
			return nil
		}
		f.silent = 0
		_, err := io.WriteString(f.w, ": still here\n\n")
		return err
	}
	f.last, f.silent = now, 0
	_, err = fmt.Fprintf(f.w, "event: state\ndata: %s\n\n", now)
	return err
}

func (f *feed) state() ([]byte, error) {
	c, err := f.srv.rooms.Store.Credits(f.account)
	if err != nil {
		return nil, err
	}
	jobs, _, err := f.srv.rooms.Coordinator.Jobs(f.account, "", feedJobs, "")
	if err != nil {
		return nil, err
	}
	records, err := f.srv.recordsOf(jobs)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"credits": json.RawMessage(creditsJSON(c)), "jobs": records})
}

// recordsOf are the records of jobs; one that was deleted meanwhile is left out.
func (s *Server) recordsOf(jobs []*store.Job) ([]*record, error) {
	records := make([]*record, 0, len(jobs))
	for _, j := range jobs {
		r, err := s.lookUp(j.ID)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}
