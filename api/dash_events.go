package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
func (es *eventStreams) add(account string, one *eventStream) bool {
	es.mu.Lock()
	defer es.mu.Unlock()
	if es.count >= maxEventStreams {
		return false
	}
	if es.byAccount == nil {
		es.byAccount = make(map[string][]*eventStream)
	}
	open := es.byAccount[account]
	if len(open) >= streamsPerAccount {
		open[len(open)-streamsPerAccount].stop()
	}
	es.count++
	es.byAccount[account] = append(open, one)
	return true
}

func (es *eventStreams) remove(account string, one *eventStream) {
	es.mu.Lock()
	defer es.mu.Unlock()
	es.count--
	es.byAccount[account] = slices.DeleteFunc(es.byAccount[account], func(o *eventStream) bool { return o == one })
	if len(es.byAccount[account]) == 0 {
		delete(es.byAccount, account)
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
	es := &eventStream{srv: s, account: account, token: c.session.token, w: w}
	es.ctx, es.stop = context.WithCancel(s.http.DrainContext())
	if !s.dashboard.streams.add(account, es) {
		es.stop()
		return httpd.Busy("There are too many event streams open")
	}
	h := &c.Ctx.Response.Header
	h.SetContentType("text/event-stream")
	h.Set("X-Accel-Buffering", "no") // tells nginx not to buffer events
	s.http.Stream(func() {
		defer s.dashboard.streams.remove(account, es)
		defer es.stop()
		_ = w.CloseWithError(es.run())
	})
	c.Ctx.Response.SetBodyStream(r, -1)
	return nil
}

// run writes events until it is stopped, the session has ended or the client has disconnected. It returns io.EOF if the
// stream should end normally.
func (es *eventStream) run() error {
	tick := time.NewTicker(streamInterval)
	defer tick.Stop()
	for {
		if _, _, err := es.srv.deps.Store.Session(es.token, es.srv.now()); err != nil {
			_, err := io.WriteString(es.w, "event: ended\ndata: {}\n\n")
			return err
		}
		if err := es.sendIfChanged(); err != nil {
			return err
		}
		select {
		case <-es.ctx.Done():
			return io.EOF
		case <-tick.C:
		}
	}
}

// sendIfChanged sends the state if it differs from what was sent last.
func (es *eventStream) sendIfChanged() error {
	c, err := es.srv.deps.Store.Credits(es.account)
	if err != nil {
		return err
	}
	jobs, _, err := es.srv.deps.Coordinator.Jobs(es.account, "", streamJobs, "")
	if err != nil {
		return err
	}
	records, err := es.srv.loadJobs(jobs)
	if err != nil {
		return err
	}
	now, err := json.Marshal(map[string]any{"credits": json.RawMessage(creditsJSON(c)), "jobs": records})
	if err != nil {
		return err
	}
	es.quietTicks++
	if bytes.Equal(now, es.last) {
		if es.quietTicks < keepAliveTicks {
			return nil
		}
		es.quietTicks = 0
		_, err := io.WriteString(es.w, ": still here\n\n")
		return err
	}
	es.last, es.quietTicks = now, 0
	_, err = fmt.Fprintf(es.w, "event: state\ndata: %s\n\n", now)
	return err
}

// loadJobs loads the records of jobs; one that was deleted meanwhile is left out.
func (s *Server) loadJobs(jobs []*store.Job) ([]*record.Job, error) {
	records := make([]*record.Job, 0, len(jobs))
	for _, j := range jobs {
		r, err := s.loadJob(j.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, nil
}
