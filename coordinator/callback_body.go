package coordinator

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"probity/store"
)

// What the sender of a job may say of its callback's body. The empty value is full.
const (
	ContentFull = "full" // the results always
	ContentAuto = "auto" // the results of up to autoRows rows
	ContentLink = "link" // never: they are to be fetched

	autoRows = 10_000
)

// inline tells whether the body of the next attempt has the results. A job that failed has none, and those of an
// expired one are gone.
func (d *delivery) inline() bool {
	if d.Link || !hasResults(d.job) {
		return false
	}
	switch d.job.CallbackContent {
	case ContentLink:
		return false
	case ContentAuto:
		return d.job.Rows <= autoRows
	}
	return true
}

func hasResults(j *store.Job) bool {
	return j.State == store.JobCompleted || j.State == store.JobCancelled
}

// event is the body of one attempt. It is the same each time it is written: all but the results is made once, and
// they do not change.
type event struct {
	head    []byte // up to results_url
	job     string
	results ResultSource // nil: the body has none
	header  http.Header
	key     []byte // of the signature, nil: none
	mac     []byte // what the body must sum up to, if it is signed
	prefix  string // what is summed before the body
	failure error  // of our side
}

// newEvent makes the body of an attempt and, if the account has a signing secret, its signature. The sum stands before
// the body, and is over all of it: so the results are read twice, first to sum them, then to send them, each time in
// the same flat memory. The times of a signature are for the start of the attempt: a receiver that refuses what is over
// five minutes old should have a large job's callback as a link.
func (c *Callbacks) newEvent(ctx context.Context, d *delivery, inline bool) (*event, error) {
	now := time.Now()
	e := &event{job: d.Job, header: http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Probity"}, "Accept": {"*/*"}, "Connection": {"close"},
	}}
	if inline {
		e.results = c.cfg.Results
	}
	if err := c.setHead(e, d, now); err != nil {
		return nil, err
	}
	return e, c.sign(ctx, e, d, now)
}

func (c *Callbacks) setHead(e *event, d *delivery, now time.Time) error {
	record, err := c.cfg.Record(d.job, d.Callback)
	if err != nil {
		return fmt.Errorf("job record: %w", err)
	}
	var link any // null where there is nothing to fetch
	if hasResults(d.job) {
		link = c.resultsURL(d.job, now)
	}
	var b bytes.Buffer
	b.WriteString(`{"event":"bulk.finished","job_id":`)
	err = errors.Join(appendJSON(&b, d.Job), appendString(&b, `,"job":`), appendJSON(&b, json.RawMessage(record)),
		appendString(&b, `,"results_url":`), appendJSON(&b, link))
	e.head = b.Bytes()
	return err
}

func appendString(b *bytes.Buffer, s string) error {
	_, err := b.WriteString(s)
	return err
}

// appendJSON appends v as JSON, an ampersand in a URL as itself.
func appendJSON(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	b.Truncate(len(bytes.TrimRight(b.Bytes(), "\n")))
	return err
}

// sign adds the headers of Standard Webhooks, if the account has a secret. The id is the job's: the same event has the
// same id in every attempt.
func (c *Callbacks) sign(ctx context.Context, e *event, d *delivery, now time.Time) error {
	secret, err := c.cfg.Store.CallbackSecret(d.Account)
	if err != nil || secret == "" {
		return err
	}
	_, enc, _ := strings.Cut(secret, "_")
	if e.key, err = base64.StdEncoding.DecodeString(enc); err != nil {
		return fmt.Errorf("signing secret: %w", err)
	}
	id, timestamp := "bulk_finished_"+d.Job, strconv.FormatInt(now.Unix(), 10)
	e.prefix = id + "." + timestamp + "."
	h := e.newSum()
	if err := e.write(ctx, h); err != nil {
		return fmt.Errorf("summing results: %w", err)
	}
	e.mac = h.Sum(nil)
	e.header.Set(standardwebhooks.HeaderWebhookID, id)
	e.header.Set(standardwebhooks.HeaderWebhookTimestamp, timestamp)
	e.header.Set(standardwebhooks.HeaderWebhookSignature, "v1,"+base64.StdEncoding.EncodeToString(e.mac))
	return nil
}

func (e *event) newSum() hash.Hash {
	h := hmac.New(sha256.New, e.key)
	io.WriteString(h, e.prefix)
	return h
}

// write writes the body.
func (e *event) write(ctx context.Context, w io.Writer) error {
	if _, err := w.Write(e.head); err != nil {
		return err
	}
	if e.results != nil {
		if _, err := io.WriteString(w, `,"results":[`); err != nil {
			return err
		}
		if err := e.results.WriteResults(ctx, e.job, &lineJoiner{w: w}); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "]"); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "}\n")
	return err
}

// errChanged: the results were others when they were sent than when they were summed.
var errChanged = errors.New("the results have changed while they were sent")

// writeChecked writes the body; its error is errChanged if that is not what was signed.
func (e *event) writeChecked(ctx context.Context, w io.Writer) error {
	if e.mac == nil {
		return e.write(ctx, w)
	}
	h := e.newSum()
	if err := e.write(ctx, io.MultiWriter(w, h)); err != nil {
		return err
	}
	if !hmac.Equal(h.Sum(nil), e.mac) {
		return errChanged
	}
	return nil
}

// lineJoiner turns lines of JSON into the elements of an array: a comma and a line end stand between them. A JSON text
// has no line end inside a string (RFC 8259 section 7), so each one that comes ends a row. Empty lines are none.
type lineJoiner struct {
	w        io.Writer
	wroteAny bool // a row was written
	inLine   bool // and is not at its end
}

func (l *lineJoiner) Write(p []byte) (n int, err error) {
	for n < len(p) {
		line, _, ended := bytes.Cut(p[n:], []byte{'\n'})
		if len(line) > 0 {
			if err := l.begin(); err != nil {
				return n, err
			}
			m, err := l.w.Write(line)
			if n += m; err != nil {
				return n, err
			}
		}
		if ended {
			n++
			l.inLine = false
		}
	}
	return n, nil
}

// begin separates a row from the one before.
func (l *lineJoiner) begin() error {
	if l.inLine {
		return nil
	}
	l.inLine = true
	if !l.wroteAny {
		l.wroteAny = true
		return nil
	}
	_, err := io.WriteString(l.w, ",\n")
	return err
}
