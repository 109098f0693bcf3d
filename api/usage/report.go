package usage

import (
	"errors"
	"strings"
	"time"

	"probity/engine"
	"probity/store"
	"probity/store/history"
)

// The bounds of what a usage report reads. For an account beyond them the report has the newest days and says so.
const (
	maxEntries = 50_000
	maxJobs    = 2_000
	jobsOfPage = 100
)

// MaxDays is the length of the longest report.
const MaxDays = 90

// longestJob is how long a job can take: max_hours of 720, and seven days of pause.
const longestJob = 37 * 24 * time.Hour

// State is what a report reads of an account: *store.Store.
type State interface {
	Ledger(account string, before uint64, limit int) ([]store.Entry, error)
	Keys(account string) ([]store.APIKey, error)
}

// Jobs are the jobs of an account, the newest first: *coordinator.Coordinator.
type Jobs interface {
	Jobs(account string, state store.JobState, limit int, cursor string) ([]*store.Job, string, error)
}

// Progress returns the distinct addresses of an unfinished job that have a verdict, by status.
type Progress func(id string) (map[engine.Status]int64, error)

// Report is the usage of an account.
type Report struct {
	ByKey    []KeyDay `json:"by_key"`
	Complete bool     `json:"complete"` // false for the newest part of a very long one
	Days     []Day    `json:"days"`
}

// Read makes the report of an account's last days, today included.
func Read(state State, jobs Jobs, progress Progress, account string, days int, now time.Time) (Report, error) {
	r := &reader{account: account, progress: progress, now: now,
		from: now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days), complete: true, days: make([]Day, days),
		keys: make(map[keyDay]*Day), jobs: make(map[string]jobCharge)}
	for i := range r.days {
		r.days[i] = Day{Date: r.from.AddDate(0, 0, i).Format(time.DateOnly), Counts: make(map[string]int64, 4)}
		for _, status := range statusNames() {
			r.days[i].Counts[status] = 0
		}
	}
	if err := errors.Join(r.readLedger(state), r.readJobs(jobs)); err != nil {
		return Report{}, err
	}
	for _, c := range r.jobs { // of jobs that have been deleted
		r.keyUsage(c.day, keyDeleted).Used += c.used
	}
	keys, err := state.Keys(account)
	if err != nil {
		return Report{}, err
	}
	return Report{Days: r.days, ByKey: r.byKey(keys), Complete: r.complete}, nil
}

// Day is the usage of an account on one day (UTC).
type Day struct {
	Date string `json:"date"`
	// rows of jobs that ended that day, and today of those that run, by status
	Counts  map[string]int64 `json:"counts"`
	Singles int64            `json:"singles"` // single verifications that gave a verdict
	Used    int64            `json:"credits_used"`
	Granted int64            `json:"credits_granted"`
	Calls   *Calls           `json:"calls,omitempty"` // of the account; not known by key
}

// Calls are the requests of a day, and the verifications of its single calls and batches by status, as far as the
// history has them.
type Calls struct {
	Requests int64            `json:"requests"`
	Verified map[string]int64 `json:"verifications"`
}

// countCalls fills in the calls of a day.
func (d *Day) countCalls(days map[string]history.Day) {
	of := days[d.Date]
	d.Calls = &Calls{of.Requests, make(map[string]int64, len(of.Verified))}
	for status, n := range of.Verified {
		d.Calls.Verified[engine.Status(status).String()] = n
	}
}

// reader collects the days of an account from its ledger and its jobs.
type reader struct {
	account  string
	progress Progress
	now      time.Time
	from     time.Time // the start of the report
	days     []Day
	keys     map[keyDay]*Day      // the same for each key
	jobs     map[string]jobCharge // what jobs cost, by id
	complete bool
}

// keyDay is one day of one key.
type keyDay struct{ date, key string }

// jobCharge is what a job cost on a day.
type jobCharge struct {
	day  *Day
	used int64
}

// The key id of usage without a key, and of usage whose key is no longer known.
const (
	keyDashboard = ""
	keyDeleted   = "deleted"
)

// day is the day that a time counts for; nil if it is not in the report.
func (r *reader) day(t time.Time) *Day {
	i := int(t.Sub(r.from) / (24 * time.Hour))
	if t.Before(r.from) || i >= len(r.days) {
		return nil
	}
	return &r.days[i]
}

func (r *reader) readLedger(state State) error {
	var before uint64
	for range maxEntries / store.MaxPage {
		entries, err := state.Ledger(r.account, before, store.MaxPage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			d := r.day(e.At)
			if d == nil {
				return nil
			}
			r.add(d, &e)
			before = e.Number
		}
		if len(entries) < store.MaxPage {
			return nil
		}
	}
	r.complete = false
	return nil
}

// add counts a ledger entry. A single verification without a verdict has none.
func (r *reader) add(d *Day, e *store.Entry) {
	switch e.Kind {
	case store.Grant:
		d.Granted += e.Credits
	case store.Charge:
		d.Used += e.Credits
		if id, ok := strings.CutPrefix(e.Cause, "job "); ok {
			r.jobs[id] = jobCharge{d, e.Credits}
			return
		}
		_, key := e.CutKey()
		k := r.keyUsage(d, key)
		d.Singles += e.Credits // each costs one; a batch is one entry for many
		k.Singles += e.Credits
		k.Used += e.Credits
	}
}

// keyUsage is the usage of a key on a day.
func (r *reader) keyUsage(d *Day, key string) *Day {
	at := keyDay{d.Date, key}
	if r.keys[at] == nil {
		r.keys[at] = &Day{Date: d.Date, Counts: make(map[string]int64, 4)}
	}
	return r.keys[at]
}

func (r *reader) readJobs(from Jobs) error {
	cursor := ""
	for range maxJobs / jobsOfPage {
		jobs, next, err := from.Jobs(r.account, "", jobsOfPage, cursor)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if err := r.addJob(j); err != nil {
				return err
			}
		}
		if next == "" || jobs[len(jobs)-1].CreatedAt.Before(r.from.Add(-longestJob)) {
			return nil
		}
		cursor = next
	}
	r.complete = false
	return nil
}

// addJob counts the rows of a job on the day of its end. An unfinished job counts today, as far as it is.
func (r *reader) addJob(j *store.Job) error {
	if j.Test {
		return nil
	}
	ended, counts := j.FinishedAt, j.Counts
	if !j.State.Finished() {
		soFar, err := r.progress(j.ID)
		if err != nil {
			return err
		}
		ended, counts = r.now, make(map[string]int64, len(soFar))
		for status, n := range soFar {
			counts[status.String()] = n
		}
	}
	d := r.day(ended)
	if d == nil {
		return nil
	}
	k := r.keyUsage(d, j.Key)
	for status, n := range counts {
		d.Counts[status] += n
		k.Counts[status] += n
	}
	if c, ok := r.jobs[j.ID]; ok {
		r.keyUsage(c.day, j.Key).Used += c.used
		delete(r.jobs, j.ID)
	}
	return nil
}
