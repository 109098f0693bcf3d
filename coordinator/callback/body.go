package callback

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

// The values of store.Job.CallbackContent. The empty value is full.
const (
	ContentFull = "full" // always with the results
	ContentAuto = "auto" // with the results of up to 10,000 rows
	ContentLink = "link" // only a link to the results
)

// autoRows is the most rows whose results ContentAuto puts into the body.
const autoRows = 10_000

// inline reports whether the body of the next attempt has the results. Failed and expired jobs have none.
func (d *delivery) inline() bool {
	if d.Link || !d.hasResults() {
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

func (d *delivery) hasResults() bool {
	return d.job.State == store.JobCompleted || d.job.State == store.JobCancelled
}

// event is the body of one attempt. It is the same each time it is written: the head is made once, and the results do not
// change.
type event struct {
	head    []byte // up to results_url
	job     string
	results ResultSource // nil: the body has no results
	header  http.Header
	key     []byte // of the signature; nil: not signed
	mac     []byte // expected HMAC of prefix and body, if signed
	prefix  string // signed before the body
	failure error  // our own failure
}

// newEvent makes the body of an attempt and, if the account has a signing secret, its signature. The signature covers the
// whole body but is sent before it, so the results are read twice, both times in constant memory. Its timestamp is the
// start of the attempt: a receiver that refuses signatures over five minutes old should get a large job as a link.
func (s *Sender) newEvent(ctx context.Context, d *delivery, inline bool) (*event, error) {
	now := time.Now()
	e := &event{job: d.Job, header: http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Probity"}, "Accept": {"*/*"}, "Connection": {"close"},
	}}
	if inline {
		e.results = s.cfg.Results
	}
	record, err := s.cfg.Record(d.job, d.Callback)
	if err != nil {
		return nil, fmt.Errorf("job record: %w", err)
	}
	var link *string // null if there are no results
	if d.hasResults() {
		link = new(s.resultsURL(d.job, now))
	}
	var head bytes.Buffer
	enc := json.NewEncoder(&head)
	enc.SetEscapeHTML(false) // URLs keep their ampersands
	if err := enc.Encode(struct {
		Event string          `json:"event"`
		ID    string          `json:"job_id"`
		Job   json.RawMessage `json:"job"`
		Link  *string         `json:"results_url"`
	}{"bulk.finished", d.Job, record, link}); err != nil {
		return nil, err
	}
	e.head = bytes.TrimSuffix(head.Bytes(), []byte("}\n"))
	// The Standard Webhooks headers. The id comes from the job, so every attempt has the same id.
	secret, err := s.cfg.Store.CallbackSecret(d.Account)
	if err != nil || secret == "" {
		return e, err
	}
	_, key, _ := strings.Cut(secret, "_")
	if e.key, err = base64.StdEncoding.DecodeString(key); err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	id, timestamp := "bulk_finished_"+d.Job, strconv.FormatInt(now.Unix(), 10)
	e.prefix = id + "." + timestamp + "."
	h := e.newSum()
	if err := e.write(ctx, h); err != nil {
		return nil, fmt.Errorf("summing results: %w", err)
	}
	e.mac = h.Sum(nil)
	e.header.Set(standardwebhooks.HeaderWebhookID, id)
	e.header.Set(standardwebhooks.HeaderWebhookTimestamp, timestamp)
	e.header.Set(standardwebhooks.HeaderWebhookSignature, "v1,"+base64.StdEncoding.EncodeToString(e.mac))
	return e, nil
}

func (e *event) newSum() hash.Hash {
	h := hmac.New(sha256.New, e.key)
	io.WriteString(h, e.prefix)
	return h
}

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

// errChanged means that the sent results differ from the signed ones.
var errChanged = errors.New("the results have changed while they were sent")

// writeChecked writes the body. It returns errChanged if that is not what was signed.
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

// lineJoiner turns lines of JSON into array elements, separated by a comma and a line end. A JSON text has no line end
// inside a string (RFC 8259 section 7), so each line end ends a row. Empty lines are skipped.
type lineJoiner struct {
	w        io.Writer
	wroteAny bool // a row was written
	inLine   bool // the current row has not ended
}

func (l *lineJoiner) Write(p []byte) (n int, err error) {
	for n < len(p) {
		line, _, ended := bytes.Cut(p[n:], []byte{'\n'})
		if len(line) > 0 {
			if l.wroteAny && !l.inLine {
				_, err = io.WriteString(l.w, ",\n")
			}
			l.wroteAny, l.inLine = true, true
			if err == nil {
				var m int
				m, err = l.w.Write(line)
				n += m
			}
			if err != nil {
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
