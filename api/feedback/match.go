package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/outcome"
	"probity/internal/jsonlines"
	"probity/store"
	"probity/store/feedback"
	"probity/store/history"
)

// Jobs are the jobs of accounts, and their results: *coordinator.Coordinator.
type Jobs interface {
	Jobs(account string, state store.JobState, limit int, cursor string) ([]*store.Job, string, error)
	Results(ctx context.Context, id string, f results.Filter, w io.Writer) error
}

// History has the verdicts of single calls and batches: *history.History.
type History interface {
	Verifications(account string, q history.Query, wanted func(*history.Verification) bool) (
		[]history.Verification, uint64, error)
}

// Matcher matches reports with verdicts.
type Matcher struct {
	Book    *feedback.Book
	Jobs    Jobs
	History History
	Log     *slog.Logger
}

// The bounds of matching.
const (
	maxCases   = 100_000 // reports that are matched at a time
	jobsOfPage = 100     // records of jobs that are read at a time
	idle       = 5 * time.Second
	restShare  = 20 // of the time one part is work
	// longestJob is how long a job can take: max_hours of 720, and seven days of pause.
	longestJob = 37 * 24 * time.Hour
)

// Run matches reports until ctx ends or the state store fails.
func (m *Matcher) Run(ctx context.Context) error {
	rest := idle
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rest):
		}
		started := time.Now()
		err := m.Match(ctx)
		if errors.Is(err, store.ErrBroken) && ctx.Err() == nil {
			return err
		}
		if err != nil && ctx.Err() == nil {
			m.Log.Warn("reports about messages were not matched: they are tried again", "error", err)
		}
		rest = max(idle, restShare*time.Since(started))
	}
}

// Match matches the reports that wait, at most maxCases.
func (m *Matcher) Match(ctx context.Context) error {
	waiting, err := m.Book.Waiting(maxCases)
	if err != nil {
		return err
	}
	for account, cases := range waiting {
		if err := m.matchAccount(ctx, account, cases); err != nil {
			return err
		}
		if err := m.Book.Settle(account, cases); err != nil {
			return err
		}
	}
	return nil
}

// matchAccount offers the account's verdicts to its cases.
func (m *Matcher) matchAccount(ctx context.Context, account string, cases []feedback.Case) error {
	a := &accountCases{book: m.Book, byHash: map[feedback.Hash][]*feedback.Case{}, oldest: cases[0].At,
		newest: cases[0].At}
	for i := range cases {
		c := &cases[i]
		a.byHash[c.Hash] = append(a.byHash[c.Hash], c)
		if c.At.Before(a.oldest) {
			a.oldest = c.At
		}
		if c.At.After(a.newest) {
			a.newest = c.At
		}
	}
	a.oldest = a.oldest.Add(-feedback.MaxDelay)
	return errors.Join(m.matchCalls(ctx, account, a), m.matchLists(ctx, account, a))
}

// matchCalls offers the verdicts of single calls and batches.
func (m *Matcher) matchCalls(ctx context.Context, account string, a *accountCases) error {
	q := history.Query{Limit: 1, From: a.oldest}
	for ctx.Err() == nil {
		_, next, err := m.History.Verifications(account, q, func(v *history.Verification) bool {
			if of := &v.Verdict; !v.Test {
				bin := outcome.BinOf(of.ProviderName, of.Status, of.Reason, of.Score)
				a.offer(v.Email, feedback.Verdict{At: of.VerifiedAt, Bin: bin})
			}
			return false
		})
		if err != nil || next == 0 {
			return err
		}
		q.Before = next
	}
	return ctx.Err()
}

// matchLists offers the rows of the account's jobs.
func (m *Matcher) matchLists(ctx context.Context, account string, a *accountCases) error {
	for cursor := ""; ; {
		jobs, next, err := m.Jobs.Jobs(account, "", jobsOfPage, cursor)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if j.CreatedAt.Before(a.oldest.Add(-longestJob)) {
				return nil
			}
			if j.Test || j.CreatedAt.After(a.newest) || (j.State.Finished() && j.FinishedAt.Before(a.oldest)) {
				continue
			}
			f := results.Filter{Form: results.Form{Format: results.JSONL}, NoInput: true, Partial: true}
			err := m.Jobs.Results(ctx, j.ID, f, &jsonlines.Writer{Line: a.offerRow})
			if ctx.Err() != nil || errors.Is(err, store.ErrBroken) {
				return errors.Join(ctx.Err(), err)
			}
			if err != nil {
				m.Log.Debug("no verdicts for reports about messages in a job", "job", j.ID, "error", err)
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// accountCases are the cases of an account by address.
type accountCases struct {
	book           *feedback.Book
	byHash         map[feedback.Hash][]*feedback.Case
	oldest, newest time.Time // of the verdicts that bear on them
}

func (a *accountCases) offer(email string, v feedback.Verdict) {
	for _, c := range a.byHash[a.book.HashOf(email)] {
		c.Offer(v)
	}
}

// result is what of a row is read.
type result struct {
	Email      string    `json:"email"`
	Status     *string   `json:"status"` // nil of a row without a verdict
	Score      uint8     `json:"score"`
	Reason     string    `json:"reason"`
	Receiver   string    `json:"smtp_provider"`
	VerifiedAt time.Time `json:"verified_at"`
}

// offerRow offers the verdict of a row to the cases of its address.
func (a *accountCases) offerRow(line []byte) error {
	var row result
	if err := json.Unmarshal(line, &row); err != nil || row.Status == nil {
		return err
	}
	status, ok := named(*row.Status, engine.Invalid)
	reason, known := named(row.Reason, engine.Reason(engine.Reasons-1))
	if !ok || !known {
		return fmt.Errorf("results with the status %q and the reason %q", *row.Status, row.Reason)
	}
	bin := outcome.BinOf(row.Receiver, status, reason, row.Score)
	a.offer(row.Email, feedback.Verdict{At: row.VerifiedAt, Bin: bin})
	return nil
}

// named is the value of a kind with a name, up to last.
func named[T interface {
	~uint8
	String() string
}](name string, last T) (v T, ok bool) {
	for v = 0; v <= last; v++ {
		if v.String() == name {
			return v, true
		}
	}
	return v, false
}
