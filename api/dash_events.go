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

	"probity/api/httpd"
	"probity/api/record"
	"probity/store"
)

// The bounds of event streams: each is updated once a second. A page that gets no stream polls instead.
const (
	maxEventStreams   = 512
	streamsPerAccount = 16
	streamInterval    = time.Second
	keepAliveTicks    = 5  // ticks without a change until a keep-alive is sent
	streamJobs        = 20 // the newest jobs that a stream follows
)

// eventStreams are the open streams.
type eventStreams struct {
	mu        sync.Mutex // guards both
	count     int
	byAccount map[string][]*eventStream // by account, the oldest first
}

// add registers a stream; false if there are too many. One too many of an account stops its oldest, whose page has most
// likely been closed: that shows only when something is written to it.
func (f *eventStreams) add(account string, one *eventStream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count >= maxEventStreams {
		return false
	}
	if f.byAccount == nil {
		f.byAccount = make(map[string][]*eventStream)
	}
	open := f.byAccount[account]
	if len(open) >= streamsPerAccount {
		open[len(open)-streamsPerAccount].stop()
	}
	f.count++
	f.byAccount[account] = append(open, one)
	return true
}

func (f *eventStreams) remove(account string, one *eventStream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	f.byAccount[account] = slices.DeleteFunc(f.byAccount[account], func(o *eventStream) bool { return o == one })
	if len(f.byAccount[account]) == 0 {
		delete(f.byAccount, account)
	}
}

// eventStream is one stream of server-sent events: the account's credits and newest jobs, whenever they change.
type eventStream struct {
	srv        *Server
	account    string
	token      string
	w          io.Writer
	ctx        context.Context
	stop       context.CancelFunc
	last       []byte
	quietTicks int
}

// getEvents serves a stream that ends with the session, the server or the page.
func getEvents(c *call) error {
	s, account := c.srv, c.identity.User.ID
	r, w := io.Pipe()
	f := &eventStream{srv: s, account: account, token: c.session.token, w: w}
	f.ctx, f.stop = context.WithCancel(s.http.DrainContext())
	if !s.dashboard.streams.add(account, f) {
		f.stop()
		return httpd.Busy("There are too many event streams open")
	}
	h := &c.Ctx.Response.Header
	h.SetContentType("text/event-stream")
	h.Set("X-Accel-Buffering", "no") // tells nginx not to buffer events
	s.http.Stream(func() {
		defer s.dashboard.streams.remove(account, f)
		defer f.stop()
		_ = w.CloseWithError(f.run())
	})
	c.Ctx.Response.SetBodyStream(r, -1)
	return nil
}

// run writes events until it is stopped, the session has ended or the client has disconnected. It returns io.EOF if the
// stream should end normally.
func (f *eventStream) run() error {
	tick := time.NewTicker(streamInterval)
	defer tick.Stop()
	for {
		if _, _, err := f.srv.deps.Store.Session(f.token, f.srv.now()); err != nil {
			_, err := io.WriteString(f.w, "event: ended\ndata: {}\n\n")
			return err
		}
		if err := f.sendIfChanged(); err != nil {
			return err
		}
		select {
		case <-f.ctx.Done():
			return io.EOF
		case <-tick.C:
		}
	}
}

// sendIfChanged sends the state if it differs from what was sent last.
func (f *eventStream) sendIfChanged() error {
	now, err := f.state()
	if err != nil {
		return err
	}
	if f.quietTicks++; bytes.Equal(now, f.last) {
		if f.quietTicks < keepAliveTicks {
			return nil
		}
		f.quietTicks = 0
		_, err := io.WriteString(f.w, ": still here\n\n")
		return err
	}
	f.last, f.quietTicks = now, 0
	_, err = fmt.Fprintf(f.w, "event: state\ndata: %s\n\n", now)
	return err
}

func (f *eventStream) state() ([]byte, error) {
	c, err := f.srv.deps.Store.Credits(f.account)
	if err != nil {
		return nil, err
	}
	jobs, _, err := f.srv.deps.Coordinator.Jobs(f.account, "", streamJobs, "")
	if err != nil {
		return nil, err
	}
	records, err := f.srv.loadJobs(jobs)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"credits": json.RawMessage(creditsJSON(c)), "jobs": records})
}

// loadJobs loads the records of jobs; one that was deleted meanwhile is left out.
func (s *Server) loadJobs(jobs []*store.Job) ([]*record.Job, error) {
	records := make([]*record.Job, 0, len(jobs))
	for _, j := range jobs {
		r, err := s.loadJob(j.ID)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}
