// Package client calls the API of a Probity server. It needs only the standard library.
//
// A call is tried again after 429, 500, 502, 503, 504 and a lost connection, as Retry-After says. A POST keeps one
// Idempotency-Key over all attempts, so that a repeat is answered once and charged once.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client is a client of one server. Its methods may be called from any goroutine.
type Client struct {
	URL, Key string        // such as https://verify.example.org, and an API key
	HTTP     *http.Client  // default: http.DefaultClient
	Attempts int           // of a call; default: 4
	MaxPause time.Duration // a longer Retry-After is returned as an error; default: one minute
}

// New makes a client of the server at a URL.
func New(server, key string) *Client { return &Client{URL: strings.TrimSuffix(server, "/"), Key: key} }

// Error is an answer that is not 2xx.
type Error struct {
	Status     int           // of HTTP
	Detail     string        // what is wrong, and what to do
	RequestID  string        // for questions to the operator
	RetryAfter time.Duration // zero: the server names none
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (status %d, request %s)", e.Detail, e.Status, e.RequestID)
}

// Verify verifies one address.
func (c *Client) Verify(ctx context.Context, email string, o Options) (*Result, error) {
	return post[Result](ctx, c, "/v1/verify/single", struct {
		Email string `json:"email"`
		Options
	}{email, o})
}

// VerifyBatch verifies up to 1,000 addresses; results are in their order.
func (c *Client) VerifyBatch(ctx context.Context, emails []string, o Options) ([]Result, error) {
	answer, err := post[struct{ Results []Result }](ctx, c, "/v1/verify/batch", struct {
		Emails []string `json:"emails"`
		Options
	}{emails, o})
	if err != nil {
		return nil, err
	}
	return answer.Results, nil
}

// Job returns the record of a job.
func (c *Client) Job(ctx context.Context, id string) (*Job, error) {
	return get[Job](ctx, c, jobPath(id))
}

// waitSeconds is how long the server holds an answer of Wait.
const waitSeconds = "10"

// Wait returns a job once it has ended. A job that is ready or paused goes on only if it is started or resumed.
// progress, unless nil, gets the record every few seconds.
func (c *Client) Wait(ctx context.Context, id string, progress func(*Job)) (*Job, error) {
	for {
		j, err := get[Job](ctx, c, jobPath(id)+"?wait="+waitSeconds)
		if err != nil || j.Ended() {
			return j, err
		}
		if progress != nil {
			progress(j)
		}
	}
}

// Rows yields the results of a job in the order of its list: all, or those with one of the statuses.
func (c *Client) Rows(ctx context.Context, id string, statuses ...string) iter.Seq2[*Row, error] {
	query := url.Values{"format": {"jsonl"}}
	if len(statuses) > 0 {
		query.Set("status", strings.Join(statuses, ","))
	}
	return func(yield func(*Row, error) bool) {
		answer, err := c.send(ctx, request{path: jobPath(id) + "/results?" + query.Encode()})
		if err != nil {
			yield(nil, err)
			return
		}
		defer answer.Body.Close()
		for rows := json.NewDecoder(answer.Body); ; {
			row := new(Row)
			err := rows.Decode(row)
			if errors.Is(err, io.EOF) || !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func jobPath(id string) string { return "/v1/verify/bulk/" + url.PathEscape(id) }

func get[T any](ctx context.Context, c *Client, path string) (*T, error) {
	return decode[T](c.send(ctx, request{path: path}))
}

func post[T any](ctx context.Context, c *Client, path string, content any) (*T, error) {
	b, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return decode[T](c.send(ctx, request{path: path, contentType: "application/json", size: int64(len(b)),
		body: func() (io.Reader, error) { return bytes.NewReader(b), nil }}))
}

func decode[T any](answer *http.Response, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	v := new(T)
	if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
		return nil, fmt.Errorf("%s: %w", answer.Request.URL.Path, err)
	}
	return v, nil
}

// request is a GET, or a POST if it has a body; method says another.
type request struct {
	method, path, contentType string
	header                    map[string]string
	body                      func() (io.Reader, error) // for each attempt
	size                      int64                     // of the body
}

// send sends a request until its answer is final.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	idempotencyKey := rand.Text()
	for attempt := 1; ; attempt++ {
		answer, err := c.attempt(ctx, r, idempotencyKey)
		if err == nil {
			return answer, nil
		}
		if err := c.pause(ctx, r, attempt, err); err != nil {
			return nil, err
		}
	}
}

// pause waits for the next attempt. It returns the error of the last one if it is final.
func (c *Client) pause(ctx context.Context, r request, attempt int, err error) error {
	pause := time.Second << (attempt - 1)
	if refusal, ok := errors.AsType[*Error](err); ok {
		if !refusal.temporary(r) {
			return err
		}
		pause = max(refusal.RetryAfter, pause)
	}
	if attempt >= cmp.Or(c.Attempts, 4) || pause > cmp.Or(c.MaxPause, time.Minute) {
		return err
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), err)
	}
}

// temporary reports whether a later attempt may have another answer.
func (e *Error) temporary(r request) bool {
	switch e.Status {
	case http.StatusConflict: // an earlier attempt is still in progress
		return r.method == http.MethodPatch || r.body != nil && e.RetryAfter > 0
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// attempt sends a request once. An answer that is not 2xx is an *Error.
func (c *Client) attempt(ctx context.Context, r request, idempotencyKey string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+r.path, nil)
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		body, err := r.body()
		if err != nil {
			return nil, err
		}
		q.Method, q.Body, q.ContentLength = http.MethodPost, io.NopCloser(body), r.size
		q.Header.Set("Content-Type", r.contentType)
		q.Header.Set("Idempotency-Key", idempotencyKey)
	}
	q.Method = cmp.Or(r.method, q.Method)
	q.Header.Set("Authorization", "Bearer "+c.Key)
	for name, value := range r.header {
		q.Header.Set(name, value)
	}
	answer, err := cmp.Or(c.HTTP, http.DefaultClient).Do(q)
	if err != nil || answer.StatusCode/100 == 2 {
		return answer, err
	}
	defer answer.Body.Close()
	refusal := &Error{Status: answer.StatusCode, Detail: answer.Status, RequestID: answer.Header.Get("X-Request-Id")}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil {
		refusal.RetryAfter = time.Duration(seconds) * time.Second
	}
	var said struct{ Detail string }
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<16)).Decode(&said); err == nil && said.Detail != "" {
		refusal.Detail = said.Detail
	}
	return nil, refusal
}
