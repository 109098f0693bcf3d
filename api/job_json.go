package api

import (
	"encoding/json"
	"errors"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"probity/coordinator"
	"probity/coordinator/csvfile"
	"probity/engine"
	"probity/internal/jsontext"
	"probity/store"
)

const bulkPath = "/v1/verify/bulk"

// jobJSON is a bulk job as the API shows it.
type jobJSON struct {
	ID          string           `json:"job_id"`
	Name        *string          `json:"name"`
	Status      store.JobState   `json:"status"`
	Filename    *string          `json:"filename"`
	Column      *string          `json:"email_column"`
	Delimiter   string           `json:"delimiter"`
	Encoding    string           `json:"encoding"`
	HasHeader   bool             `json:"has_header"`
	Created     *timestamp       `json:"created_at"`
	Started     *timestamp       `json:"started_at"`
	Finished    *timestamp       `json:"finished_at"`
	Expires     *timestamp       `json:"expires_at"`
	Rows        int64            `json:"total_rows"`
	Unique      int64            `json:"unique_addresses"`
	Duplicates  int64            `json:"duplicate_rows"`
	Blank       int64            `json:"blank_rows"`
	Processed   int64            `json:"processed"`
	Percent     float64          `json:"percent"`
	Rate        float64          `json:"rows_per_second"`
	ETA         *int64           `json:"eta_seconds"`
	Pending     int64            `json:"pending_retry"`
	Waiting     int64            `json:"waiting_budget"`
	Slow        []slowRoute      `json:"slow_routes"`
	Counts      map[string]int64 `json:"counts"`
	Reasons     map[string]int64 `json:"reasons"`
	Reserved    int64            `json:"credits_reserved"`
	Used        int64            `json:"credits_used"`
	Refunded    int64            `json:"credits_refunded"`
	CallbackURL *string          `json:"callback_url"`
	Callback    *string          `json:"callback_status"`
	MaxHours    int              `json:"max_hours"`
	Attempts    int              `json:"callback_attempts"`
	ResultsURL  *string          `json:"results_url"`
	ResultsSHA  *string          `json:"results_sha256"`
	ResultBytes *int64           `json:"results_bytes"`
	Error       *string          `json:"error"`
	Damage      string           `json:"damage,omitempty"` // only if there is any
}

type slowRoute struct {
	Provider string `json:"provider"`
	Waiting  int64  `json:"waiting"`
	ETA      *int64 `json:"eta_seconds"`
}

// timestamp is a time as the API writes it.
type timestamp time.Time

// MarshalJSON writes whole seconds in UTC.
func (t timestamp) MarshalJSON() ([]byte, error) {
	return jsontext.AppendTime(nil, time.Time(t)), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *timestamp) UnmarshalJSON(b []byte) error { return (*time.Time)(t).UnmarshalJSON(b) }

func timestampOrNil(t time.Time) *timestamp {
	if t.IsZero() {
		return nil
	}
	return (*timestamp)(&t)
}

// textOrNil is nil for the empty string, and so null in JSON.
func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// CallbackRecord is the record of a finished job in its callback. publicURL begins its links; kept is how long its results
// are kept after its end.
func CallbackRecord(publicURL string, kept time.Duration, j *store.Job, c store.Callback) ([]byte, error) {
	r, err := newJobJSON(strings.TrimSuffix(publicURL, "/"), kept, coordinator.FinishedSnapshot(j), &c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

func (s *Server) jobURLPath(id string) string { return bulkPath + "/" + id }

// encodeJob is the current record of a job as JSON.
func (s *Server) encodeJob(snap coordinator.Snapshot, c *store.Callback) ([]byte, error) {
	r, err := newJobJSON(s.cfg.PublicURL, s.deps.Coordinator.ResultRetention(), snap, c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// loadJob is the record of a job in the store.
func (s *Server) loadJob(id string) (*jobJSON, error) {
	snap, err := s.deps.Coordinator.Snapshot(id)
	if err != nil {
		return nil, err
	}
	var callback *store.Callback
	c, err := s.deps.Store.Callback(id)
	if err == nil {
		callback = &c
	} else if !errors.Is(err, store.ErrNoCallback) {
		return nil, err
	}
	return newJobJSON(s.cfg.PublicURL, s.deps.Coordinator.ResultRetention(), snap, callback)
}

func newJobJSON(base string, kept time.Duration, s coordinator.Snapshot, c *store.Callback) (*jobJSON, error) {
	var d csvfile.Dialect
	if err := json.Unmarshal(s.Dialect, &d); err != nil {
		return nil, err
	}
	r := &jobJSON{
		ID: s.ID, Name: textOrNil(s.Name), Status: s.State, Filename: textOrNil(s.Filename), Column: textOrNil(columnOf(d)),
		Delimiter: string(rune(d.Delimiter)), Encoding: d.Encoding, HasHeader: d.HasHeader, Created: timestampOrNil(s.CreatedAt),
		Started: timestampOrNil(s.StartedAt), Rows: s.Rows, Unique: s.Unique, Duplicates: s.Duplicates, Blank: s.Blank, Processed: s.Processed,
		Percent: percent(s.Processed, s.Rows), Rate: math.Round(s.Rate*10) / 10, Pending: s.PendingRetry, Waiting: s.WaitingBudget, Slow: []slowRoute{},
		Counts: countsOf(s), Reasons: s.ByReason, CallbackURL: textOrNil(s.CallbackURL), Error: textOrNil(s.Error), Damage: s.Damage,
		MaxHours: s.MaxHours,
	}
	if r.Reasons == nil {
		r.Reasons = map[string]int64{}
	}
	r.setWaiting(s)
	r.setCredits(&s.Job)
	r.setResults(base, kept, &s.Job)
	switch {
	case s.CallbackURL == "":
	case c != nil && c.State != "":
		r.Callback, r.Attempts = textOrNil(string(c.State)), c.Attempts
	case !s.State.Finished():
		r.Callback = textOrNil(string(store.CallbackPending)) // it is due when the job ends
	}
	return r, nil
}

// columnOf is the name of the e-mail column, or its number from 1.
func columnOf(d csvfile.Dialect) string {
	if d.HasHeader && d.Name != "" {
		return d.Name
	}
	return strconv.Itoa(d.Column + 1)
}

// percent never rounds up to 100.
func percent(n, of int64) float64 {
	if of == 0 || n >= of {
		return 100
	}
	return math.Floor(float64(n)*1000/float64(of)) / 10
}

func countsOf(s coordinator.Snapshot) map[string]int64 {
	counts := make(map[string]int64, 4)
	for status := engine.Unknown; status <= engine.Invalid; status++ {
		counts[status.String()] = s.ByStatus[status]
	}
	return counts
}

func (r *jobJSON) setWaiting(s coordinator.Snapshot) {
	if eta := int64(math.Ceil(s.ETA.Seconds())); s.ETA > 0 || s.State.Finished() {
		r.ETA = &eta
	}
	for _, w := range s.Waiting {
		slow := slowRoute{Provider: w.Class, Waiting: w.Rows}
		if w.ETA > 0 {
			eta := int64(math.Ceil(max(w.ETA, time.Until(w.Until)).Seconds()))
			slow.ETA = &eta
		}
		r.Slow = append(r.Slow, slow)
	}
}

func (r *jobJSON) setCredits(j *store.Job) {
	if !j.State.Finished() {
		r.Reserved = maxCost(j)
		return
	}
	r.Used, r.Refunded = j.Charged, maxCost(j)-j.Charged
}

func (r *jobJSON) setResults(base string, kept time.Duration, j *store.Job) {
	if !j.State.Finished() {
		return
	}
	r.Finished, r.Expires = timestampOrNil(j.FinishedAt), timestampOrNil(j.FinishedAt.Add(kept))
	if !j.ExpiredAt.IsZero() {
		r.Expires = timestampOrNil(j.ExpiredAt)
	}
	if j.State == store.JobCompleted || j.State == store.JobCancelled {
		r.ResultsURL = textOrNil(base + bulkPath + "/" + j.ID + "/results")
		r.ResultsSHA, r.ResultBytes = textOrNil(j.ResultSHA), &j.ResultBytes
	}
}

// cleanFilename is the last element of a file name as a browser sends it, without control characters, and without invisible
// characters that change how others are shown (U+202E lets exe.csv pass for vsc.exe).
func cleanFilename(s string) string {
	if i := strings.LastIndexByte(s, '\\'); i >= 0 {
		s = s[i+1:]
	}
	if s = path.Base(s); s == "." || s == "/" {
		return ""
	}
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	for len(s) > maxName {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
