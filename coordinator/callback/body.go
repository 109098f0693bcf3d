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
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"probity/store"
)

// BulkFinished is the event of a job that has ended.
const BulkFinished = "bulk.finished"

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
	if d.Single || d.Link || !d.hasResults() {
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

// event is the body of one attempt. It is the same each time it is written: the head is made once, and the results do
// not change.
type event struct {
	head    []byte // up to results_url
	job     string
	results ResultSource // nil: the body has no results
	header  http.Header
	keys    [][]byte // of the signatures; none: not signed
	prefix  string   // signed before the body
	length  int64    // expected bytes of the body
	macs    [][]byte // expected HMACs of prefix and body, one for each key
	failure error    // our own failure
}

// newEvent makes the body of an attempt and, if the account has a signing secret, its signatures. Both length and
// signature are sent before the body, so the results are read twice, in constant memory: many receivers do not read a
// body without a length, and a WSGI application answers 200 to one, of which it saw nothing. The timestamp of a
// signature is the start of the attempt: a receiver that refuses signatures over five minutes old should get a large
// job as a link.
func (s *Sender) newEvent(ctx context.Context, d *delivery, inline bool) (*event, error) {
	now := time.Now()
	e := &event{job: d.Job, header: http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"Probity"}, "Accept": {"*/*"}, "Connection": {"close"},
	}}
	var err error
	// The id comes from the job or call, so every attempt has the same id.
	id := "bulk_finished_" + d.Job
	if d.Single {
		id = "single_finished_" + d.Job
		e.head = bytes.TrimSuffix(d.single, []byte("}"))
	} else if e.head, err = s.headOfJob(d, now); err != nil {
		return nil, err
	}
	if d.trace != "" {
		e.header.Set("Traceparent", d.trace)
	}
	if d.job != nil {
		for name, value := range d.job.CallbackHeaders {
			e.header.Set(name, value)
		}
	}
	if inline {
		e.results = s.cfg.Results
	}
	signing, err := s.cfg.Store.Signing(d.Account, now)
	if err != nil {
		return nil, err
	}
	for _, secret := range []string{signing.Secret, signing.Former} {
		if secret == "" {
			continue
		}
		_, encoded, _ := strings.Cut(secret, "_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("signing secret: %w", err)
		}
		e.keys = append(e.keys, key)
	}
	timestamp := strconv.FormatInt(now.Unix(), 10)
	e.prefix = id + "." + timestamp + "."
	sums := e.newSums(io.Discard)
	if err := e.writeToEnd(ctx, sums); err != nil {
		return nil, fmt.Errorf("summing results: %w", err)
	}
	sums.add([]byte(bodyEnd))
	e.length, e.macs = sums.length, sums.macs()
	e.header.Set("Content-Length", strconv.FormatInt(e.length, 10))
	if len(e.keys) > 0 {
		var signatures []string
		for _, mac := range e.macs {
			signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac))
		}
		e.header.Set(standardwebhooks.HeaderWebhookID, id)
		e.header.Set(standardwebhooks.HeaderWebhookTimestamp, timestamp)
		e.header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	}
	return e, nil
}

// headOfJob makes the event of a job, without its results and its end.
func (s *Sender) headOfJob(d *delivery, now time.Time) ([]byte, error) {
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
	err = enc.Encode(struct {
		Event string          `json:"event"`
		ID    string          `json:"job_id"`
		Job   json.RawMessage `json:"job"`
		Link  *string         `json:"results_url"`
	}{BulkFinished, d.Job, record, link})
	return bytes.TrimSuffix(head.Bytes(), []byte("}\n")), err
}

// bodySums writes a body and computes its length and its HMACs.
type bodySums struct {
	w      io.Writer
	length int64
	hashes []hash.Hash
}

func (e *event) newSums(w io.Writer) *bodySums {
	b := &bodySums{w: w}
	for _, key := range e.keys {
		h := hmac.New(sha256.New, key)
		io.WriteString(h, e.prefix)
		b.hashes = append(b.hashes, h)
	}
	return b
}

func (b *bodySums) Write(p []byte) (int, error) {
	b.add(p)
	return b.w.Write(p)
}

func (b *bodySums) add(p []byte) {
	b.length += int64(len(p))
	for _, h := range b.hashes {
		h.Write(p)
	}
}

func (b *bodySums) macs() (macs [][]byte) {
	for _, h := range b.hashes {
		macs = append(macs, h.Sum(nil))
	}
	return macs
}

// bodyEnd ends each body. It is sent only after the rest was checked.
const bodyEnd = "}\n"

// writeToEnd writes the body without its end.
func (e *event) writeToEnd(ctx context.Context, w io.Writer) error {
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
	return nil
}

// errChanged means that the sent results differ from those that were measured and signed.
var errChanged = errors.New("the results have changed while they were sent")

// writeChecked writes the body. It returns errChanged, and the body stays incomplete, if that is not what was
// measured and signed.
func (e *event) writeChecked(ctx context.Context, w io.Writer) error {
	sums := e.newSums(w)
	if err := e.writeToEnd(ctx, sums); err != nil {
		return err
	}
	sums.add([]byte(bodyEnd))
	if sums.length != e.length || !slices.EqualFunc(sums.macs(), e.macs, hmac.Equal) {
		return errChanged
	}
	_, err := io.WriteString(w, bodyEnd)
	return err
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
