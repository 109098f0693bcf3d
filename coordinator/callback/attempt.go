package callback

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"probity/internal/spans"
	"probity/store"
)

// maxAttempt bounds one attempt from its first lookup to its last byte: 5,000,000 rows at 200 kB/s.
const maxAttempt = 2 * time.Hour

// Failures of an attempt without an answer, in addition to those of outward. The receiver's owner reads these texts in
// the log of attempts.
var (
	errTLS      = errors.New("no TLS connection")
	errLost     = errors.New("the connection was lost before an answer came")
	errCut      = errors.New("the connection was lost before the whole body was taken")
	errStalled  = errors.New("timeout: the receiver stopped reading the body for 60 seconds")
	errNoAnswer = errors.New("no answer within 15 seconds of the end of the body")
	errNotHTTP  = errors.New("the answer was not HTTP")
	errInternal = errors.New("the results could not be read on our side")
	errTooSlow  = errors.New("the attempt took over two hours")
)

// result is the result of an attempt: a status, or one of the errors above.
type result struct {
	status int
	bytes  int64 // sent bytes of the body
	answer string
	err    error
}

// ok reports whether the receiver has the event.
func (r result) ok() bool { return r.status/100 == 2 }

// wantsLess reports whether the receiver may read a body without results: 413, or 411 of a proxy that drops the length.
func (r result) wantsLess() bool {
	return r.status == http.StatusRequestEntityTooLarge || r.status == http.StatusLengthRequired
}

// words describes the failure for the log of attempts.
func (r result) words() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.ok():
		return ""
	case r.status/100 == 3:
		return fmt.Sprintf("answered %d: redirects are not followed", r.status)
	case r.status == http.StatusRequestEntityTooLarge:
		return "answered 413: the body is too large"
	case r.status == http.StatusLengthRequired:
		return "answered 411: the length of the body is not accepted"
	case r.status == http.StatusGone:
		return "answered 410: not sent again"
	}
	return fmt.Sprintf("answered %d", r.status)
}

// outcome returns what a reply means for the schedule. inline: the body had the results. cuts: earlier attempts whose
// connection was lost within the body.
func (r result) outcome(inline bool, cuts int, jitter float64) store.Outcome {
	o := store.Outcome{State: store.CallbackPending, Jitter: jitter}
	switch {
	case r.ok():
		o.State = store.CallbackDelivered
	case r.status == http.StatusGone:
		o.State = store.CallbackStopped
	case inline && r.wantsLess(), inline && cuts > 0 && errors.Is(r.err, errCut):
		o.Link = true
	}
	return o
}

// deliver makes one attempt and records its result. Its errors are those of the store.
func (s *Sender) deliver(ctx context.Context, d *delivery) error {
	began := time.Now()
	inline := d.inline()
	span := s.cfg.Tracer.Start(spans.ParsePlace(d.trace), "POST callback", spans.Client, began)
	if span != nil && d.trace != "" {
		d.trace = span.Place().String()
	}
	r := s.attempt(ctx, d, inline)
	if ctx.Err() != nil && r.status == 0 {
		return nil // we are stopping
	}
	now := time.Now()
	endSpan(span, d, &r, now)
	a := store.Attempt{
		Number: d.Attempts + 1, At: began, Duration: now.Sub(began),
		Status: r.status, Error: r.words(), Bytes: r.bytes, Link: !inline, Truncated: errors.Is(r.err, errCut),
		Answer: r.answer,
	}
	cuts := 0
	if inline && a.Truncated {
		log, err := s.cfg.Store.CallbackLog(d.Job)
		if err != nil {
			return err
		}
		for i := range log {
			if log[i].Truncated && !log[i].Link {
				cuts++
			}
		}
	}
	after, err := s.cfg.Store.RecordAttempt(d.Job, a, r.outcome(inline, cuts, rand.Float64()), now)
	if errors.Is(err, store.ErrNoCallback) {
		return nil // the job was deleted meanwhile
	}
	if err != nil {
		return err
	}
	s.metrics.attempts.WithLabelValues(string(after.State)).Inc()
	s.metrics.seconds.Observe(a.Duration.Seconds())
	s.metrics.bytes.Add(float64(a.Bytes))
	s.cfg.Log.Info("callback attempted", "job", d.Job, "attempt", a.Number, "state", after.State, "status", a.Status,
		"took", a.Duration, "bytes", a.Bytes, "link", a.Link, "error", a.Error, "next", after.Next,
		"traceparent", d.trace)
	if after.State != store.CallbackPending && !d.Single {
		if err := s.cfg.Results.DropResults(d.Job); err != nil {
			s.cfg.Log.Warn("callback's rows not deleted; they go with the job", "job", d.Job, "error", err)
		}
	}
	return nil
}

// endSpan ends the span of an attempt. The URL is the customer's and may contain anything: it is left out.
func endSpan(s *spans.Span, d *delivery, r *result, now time.Time) {
	if s == nil {
		return
	}
	s.Text("http.request.method", http.MethodPost)
	if r.status != 0 {
		s.Number("http.response.status_code", r.status)
	}
	s.Number("http.request.resend_count", d.Attempts)
	s.Text("user.id", d.Account)
	if d.Single {
		s.Text("probity.request", d.Job)
	} else {
		s.Text("probity.job", d.Job)
	}
	if !r.ok() {
		s.Fail()
	}
	s.End(now)
}

// attempt makes one attempt within maxAttempt.
func (s *Sender) attempt(ctx context.Context, d *delivery, inline bool) result {
	if d.refused != nil {
		return result{err: d.refused}
	}
	ctx, done := context.WithTimeoutCause(ctx, maxAttempt, errTooSlow)
	defer done()
	e, err := s.newEvent(ctx, d, inline)
	if err != nil {
		s.cfg.Log.Error("callback cannot be made", "job", d.Job, "error", err)
		return result{err: errInternal}
	}
	conn, err := s.connect(ctx, d.target)
	if err != nil {
		return result{err: err}
	}
	r := e.post(ctx, conn, d.target)
	if r.status == 0 && errors.Is(context.Cause(ctx), errTooSlow) {
		r.err = errTooSlow
	}
	if errors.Is(r.err, errInternal) {
		s.cfg.Log.Error("callback cannot be made", "job", d.Job, "error", e.failure)
	}
	return r
}
