package record

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"probity/coordinator"
	"probity/coordinator/csvfile"
	"probity/engine"
	"probity/internal/jsontext"
	"probity/store"
	"probity/store/deliveries"
)

// BulkPath is the path of jobs.
const BulkPath = "/v1/verify/bulk"

// Job is a bulk job as the API shows it.
type Job struct {
	ID          string           `json:"job_id"`
	Name        *string          `json:"name"`
	Status      store.JobState   `json:"status"`
	Test        bool             `json:"test,omitempty"` // of a test key
	Filename    *string          `json:"filename"`
	Column      *string          `json:"email_column"`
	Delimiter   string           `json:"delimiter"`
	Encoding    string           `json:"encoding"`
	HasHeader   bool             `json:"has_header"`
	Created     *Time            `json:"created_at"`
	Started     *Time            `json:"started_at"`
	Finished    *Time            `json:"finished_at"`
	Expires     *Time            `json:"expires_at"`
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
	Headers     maskedHeaders    `json:"callback_headers,omitempty"`
	Callback    *string          `json:"callback_status"`
	MaxHours    int              `json:"max_hours"`
	Attempts    int              `json:"callback_attempts"`
	ResultsURL  *string          `json:"results_url"`
	ResultsSHA  *string          `json:"results_sha256"`
	ResultBytes *int64           `json:"results_bytes"`
	ResultsTo   *delivery        `json:"results_to,omitempty"`
	Error       *string          `json:"error"`
	Damage      string           `json:"damage,omitempty"` // only if there is any
	Needed      *int64           `json:"credits_needed,omitempty"`
	Preview     *Preview         `json:"preview,omitempty"`
}

// Preview is what a job in state ready shows of its list, and what it will need.
type Preview struct {
	Delimiter  string     `json:"delimiter"`
	Encoding   string     `json:"encoding"`
	Columns    []string   `json:"columns"`
	Rows       [][]string `json:"rows"`
	Total      int64      `json:"total_rows"`
	Unique     int64      `json:"unique_addresses"`
	Duplicates int64      `json:"duplicate_rows"`
	Blank      int64      `json:"blank_rows"`
	Needed     int64      `json:"credits_needed"`
	ETA        *int64     `json:"eta_seconds"`
}

// SetPreview adds the preview to the record of a job in state ready, and its least time.
func (j *Job) SetPreview(p coordinator.Preview) {
	if p.LeastTime != nil {
		j.ETA = wholeSeconds(*p.LeastTime)
	}
	j.Preview = &Preview{
		Delimiter: j.Delimiter, Encoding: j.Encoding, Columns: p.Columns, Rows: p.Rows, Total: j.Rows, Unique: j.Unique,
		Duplicates: j.Duplicates, Blank: j.Blank, Needed: *j.Needed, ETA: j.ETA,
	}
}

type slowRoute struct {
	Provider string `json:"provider"`
	Waiting  int64  `json:"waiting"`
	ETA      *int64 `json:"eta_seconds"`
}

// delivery is the delivery of a job's results to a bucket.
type delivery struct {
	URL      string           `json:"url"`
	Status   deliveries.State `json:"status"`
	Attempts int              `json:"attempts"`
	Next     *Time            `json:"next_attempt_at"`
	Error    *string          `json:"error"` // of the last attempt
}

// Deliver returns the part of a job's acceptance that has its results delivered to a URL, and adds that to the record.
func (j *Job) Deliver(of *store.Job, url string) store.Part {
	j.ResultsTo = &delivery{URL: url, Status: deliveries.Pending}
	return deliveries.Accept(of, url)
}

// SetDelivery adds the delivery of the job's results, if there is one.
func (j *Job) SetDelivery(db *store.DB) error {
	d, err := deliveries.Of(db, j.ID)
	if errors.Is(err, deliveries.ErrNone) {
		return nil
	}
	j.ResultsTo = &delivery{URL: d.URL, Status: d.State, Attempts: d.Attempts, Next: TimeOrNil(d.Next),
		Error: TextOrNil(d.Error)}
	return err
}

// maskedHeaders are headers of a callback, whose values are secrets.
type maskedHeaders map[string]string

// MarshalJSON writes the names.
func (m maskedHeaders) MarshalJSON() ([]byte, error) {
	masked := make(map[string]string, len(m))
	for name := range m {
		masked[name] = "********"
	}
	return json.Marshal(masked)
}

// Time is a time as the API writes it.
type Time time.Time

// MarshalJSON writes whole seconds in UTC.
func (t Time) MarshalJSON() ([]byte, error) {
	return jsontext.AppendTime(nil, time.Time(t)), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Time) UnmarshalJSON(b []byte) error { return (*time.Time)(t).UnmarshalJSON(b) }

// TimeOrNil is nil for the zero time, and so null in JSON.
func TimeOrNil(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return (*Time)(&t)
}

// TextOrNil is nil for the empty string, and so null in JSON.
func TextOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// ForCallback is the record of a finished job in its callback. publicURL begins its links; kept is how long its results
// are kept after its end; db has its delivery.
func ForCallback(db *store.DB, publicURL string, kept time.Duration, j *store.Job, c store.Callback) ([]byte, error) {
	r, err := NewJob(strings.TrimSuffix(publicURL, "/"), kept, coordinator.FinishedSnapshot(j), &c)
	if err == nil {
		err = r.SetDelivery(db)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// NewJob makes the record of a job; base is the URL before its paths, kept how long results stay, c its callback or
// nil.
func NewJob(base string, kept time.Duration, s coordinator.Snapshot, c *store.Callback) (*Job, error) {
	var d csvfile.Dialect
	if err := json.Unmarshal(s.Dialect, &d); err != nil {
		return nil, err
	}
	column := d.Name // or its number from 1
	if !d.HasHeader || column == "" {
		column = strconv.Itoa(d.Column + 1)
	}
	r := &Job{
		ID: s.ID, Name: TextOrNil(s.Name), Status: s.State, Test: s.Test, Filename: TextOrNil(s.Filename),
		Column:    &column,
		Delimiter: string(rune(d.Delimiter)), Encoding: d.Encoding, HasHeader: d.HasHeader,
		Created: TimeOrNil(s.CreatedAt),
		Started: TimeOrNil(s.StartedAt), Rows: s.Rows, Unique: s.Unique, Duplicates: s.Duplicates, Blank: s.Blank,
		Processed: s.Processed,
		Percent:   percent(s.Processed, s.Rows), Rate: math.Round(s.Rate*10) / 10, Pending: s.PendingRetry,
		Waiting: s.WaitingBudget, Slow: []slowRoute{},
		Counts: make(map[string]int64, 4), Reasons: s.ByReason, CallbackURL: TextOrNil(s.CallbackURL),
		Error: TextOrNil(s.Error), Damage: s.Damage,
		MaxHours: s.MaxHours, Headers: s.CallbackHeaders,
	}
	if r.Reasons == nil {
		r.Reasons = map[string]int64{}
	}
	for status := engine.Unknown; status <= engine.Invalid; status++ {
		r.Counts[status.String()] = s.ByStatus[status]
	}
	if s.State == store.JobReady {
		r.Needed = new(MaxCost(&s.Job))
	}
	if s.ETA > 0 || s.State.Finished() {
		r.ETA = wholeSeconds(s.ETA)
	}
	for _, w := range s.Waiting {
		slow := slowRoute{Provider: w.Class, Waiting: w.Rows}
		if w.ETA > 0 {
			slow.ETA = wholeSeconds(max(w.ETA, time.Until(w.Until)))
		}
		r.Slow = append(r.Slow, slow)
	}
	if !s.Unstarted {
		r.Reserved = MaxCost(&s.Job)
	}
	if s.State.Finished() {
		r.Reserved, r.Used, r.Refunded = 0, s.Charged, r.Reserved-s.Charged
		r.Finished, r.Expires = TimeOrNil(s.FinishedAt), TimeOrNil(s.FinishedAt.Add(kept))
		if !s.ExpiredAt.IsZero() {
			r.Expires = TimeOrNil(s.ExpiredAt)
		}
	}
	if s.State == store.JobCompleted || s.State == store.JobCancelled {
		r.ResultsURL = TextOrNil(base + BulkPath + "/" + s.ID + "/results")
		r.ResultsSHA, r.ResultBytes = TextOrNil(s.ResultSHA), &s.ResultBytes
	}
	switch {
	case s.CallbackURL == "":
	case c != nil && c.State != "":
		r.Callback, r.Attempts = TextOrNil(string(c.State)), c.Attempts
	case !s.State.Finished():
		r.Callback = TextOrNil(string(store.CallbackPending)) // it is due when the job ends
	}
	return r, nil
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) *int64 { return new(int64(math.Ceil(d.Seconds()))) }

// percent never rounds up to 100.
func percent(n, of int64) float64 {
	if of == 0 || n >= of {
		return 100
	}
	return math.Floor(float64(n)*1000/float64(of)) / 10
}

// MaxCost is the most that a job may cost.
func MaxCost(j *store.Job) int64 {
	if j.Test {
		return 0
	}
	return j.Unique
}
