package record

import (
	"encoding/json"
	"slices"
	"time"

	"probity/engine"
	"probity/store"
)

// Receipt is the state of an erasure. It has the address only as a hash.
type Receipt struct {
	ID        string         `json:"erasure_id"`
	Hash      string         `json:"address_sha256"` // of the address in normalized form
	Status    string         `json:"status"`         // open or done
	Requested Time           `json:"asked_at"`
	Done      *Time          `json:"done_at"`
	Jobs      int64          `json:"jobs"` // whose list or results had it
	Rows      int64          `json:"rows"` // of these jobs, with it as e-mail cell
	Cached    int64          `json:"cached"`
	Answers   int64          `json:"answers"` // of the cached, those kept for an Idempotency-Key
	Reports   int64          `json:"reports"` // records of what became of messages to it
	Caches    []erasedCache  `json:"caches"`
	Expiring  []expiringCopy `json:"ages_out"`
	Problem   *string        `json:"problem"`
}

// erasedCache is a node whose cache was erased.
type erasedCache struct {
	Node     string `json:"node"`
	Verdicts int64  `json:"verdicts"`
	Done     Time   `json:"done_at"`
}

// expiringCopy is a copy that was not erased, and when it expires.
type expiringCopy struct {
	What  string `json:"what"`
	Until *Time  `json:"until"` // nil while that is not known: for a job that is not finished
}

// NewReceipt makes the receipt of an erasure; expires returns when the files of a job are deleted, zero if that
// is not known; nil if it is known of none.
func NewReceipt(e store.Erasure, expires func(job string) time.Time) Receipt {
	if expires == nil {
		expires = func(string) time.Time { return time.Time{} }
	}
	r := Receipt{ID: e.ID, Hash: e.Hash, Status: "done", Requested: Time(e.Requested), Done: TimeOrNil(e.Done),
		Jobs: e.JobCount, Rows: e.Rows,
		Cached: e.Answers, Answers: e.Answers, Reports: e.Reports, Caches: []erasedCache{}, Expiring: []expiringCopy{},
		Problem: TextOrNil(e.Fault)}
	if e.Open() {
		r.Status = "open"
	}
	for _, c := range e.Caches {
		if c.Done.IsZero() {
			r.Expiring = append(r.Expiring, expiringCopy{"the cache of " + c.Node, TimeOrNil(c.Until)})
			continue
		}
		r.Cached += c.Verdicts
		r.Caches = append(r.Caches, erasedCache{c.Node, c.Verdicts, Time(c.Done)})
	}
	for _, job := range e.JobsLeft {
		r.Expiring = append(r.Expiring, expiringCopy{"job " + job, TimeOrNil(expires(job))})
	}
	return r
}

// String names the copy and its end.
func (ec expiringCopy) String() string {
	if ec.Until == nil {
		return ec.What
	}
	return ec.What + " by " + time.Time(*ec.Until).UTC().Format(time.RFC3339)
}

// keptResult is the part of a verification result that names addresses.
type keptResult struct {
	Email   string `json:"email"`
	Details struct {
		Normalized string `json:"normalized_email"`
		DidYouMean string `json:"did_you_mean"`
	} `json:"details"`
}

// IsAnswerAbout reports whether a kept answer to a verification, single or batch, is about an address, given in folded
// form.
func IsAnswerAbout(answer []byte, folded string) bool {
	var a struct {
		keptResult
		Results []keptResult `json:"results"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return false
	}
	return slices.ContainsFunc(append(a.Results, a.keptResult), func(r keptResult) bool {
		return slices.ContainsFunc([]string{r.Email, r.Details.Normalized, r.Details.DidYouMean}, func(s string) bool {
			parsed, err := engine.ParseTrimmed(s)
			return err == nil && parsed.Folded() == folded
		})
	})
}
