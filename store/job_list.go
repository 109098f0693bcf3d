package store

import (
	"cmp"

	"github.com/cockroachdb/pebble/v2"

	"probity/store/joborder"
)

// JobQuery is what ListJobs looks for.
type JobQuery struct {
	Account     string
	AllAccounts bool     // instead of Account
	State       JobState // empty: any
	Order       joborder.Order
	Limit       int
	Cursor      string // JobPage.Next of the page before; empty for the first page
	Count       bool   // JobPage.Total is wanted
}

// JobPage is a page of jobs.
type JobPage struct {
	Jobs  []*Job
	Next  string // empty on the last page
	Total int    // jobs on all pages, if JobQuery.Count
}

// JobsOf is ListJobs for an account's jobs, the newest first.
func (j *Jobs) JobsOf(account string, state JobState, limit int, cursor string) (jobs []*Job, next string, err error) {
	page, err := j.ListJobs(JobQuery{Account: account, State: state, Limit: limit, Cursor: cursor})
	return page.Jobs, page.Next, err
}

// ListJobs returns a page of jobs, ErrBadCursor or ErrCursorSort. It reads the records of the page only, and by name,
// of all accounts or with a count the index of all jobs.
func (j *Jobs) ListJobs(q JobQuery) (JobPage, error) {
	list := joborder.Page{Order: q.Order, Limit: q.Limit}
	if q.Cursor != "" {
		after, order, ok := joborder.ParseCursor(q.Cursor)
		if !ok {
			return JobPage{}, ErrBadCursor
		}
		if order != q.Order {
			return JobPage{}, ErrCursorSort
		}
		list.After = &after
	}
	view := j.db.NewSnapshot()
	defer view.Close()
	total, err := listPlaces(view, q, &list)
	if err != nil {
		return JobPage{}, err
	}
	page := JobPage{Total: total}
	places, next := list.Places()
	page.Next = next
	for _, p := range places {
		job, err := readJob(view, string(p.ID))
		if err != nil {
			return JobPage{}, err
		}
		page.Jobs = append(page.Jobs, job)
	}
	return page, nil
}

// listPlaces adds the entries of the index to the list, and returns their number. Where the index is in the list's
// order and no number is wanted, it begins at the cursor and ends with the page.
func listPlaces(view pebble.Reader, q JobQuery, list *joborder.Page) (total int, err error) {
	lower := []byte{tableOwner}
	if !q.AllAccounts {
		lower = keyPrefix(tableOwner, q.Account)
	}
	upper := prefixEnd(lower)
	part := !q.AllAccounts && !q.Order.IsByName() && !q.Count
	if part && list.After != nil {
		at := append(numberedKey(tableOwner, q.Account, list.After.Created), list.After.ID...)
		if q.Order.IsReversed() {
			upper = at
		} else {
			lower = append(at, 0) // the least key after it
		}
	}
	first, next := (*pebble.Iterator).First, (*pebble.Iterator).Next
	if q.Order.IsReversed() {
		first, next = (*pebble.Iterator).Last, (*pebble.Iterator).Prev
	}
	err = walk(view, lower, upper, first, next, func(k, v []byte) error {
		p, state, err := joborder.ReadEntry(k, v, q.Order)
		if err != nil || (q.State != "" && string(state) != string(q.State)) {
			return err
		}
		total++
		list.Add(p)
		if part && list.Full() {
			return errStop
		}
		return nil
	})
	return total, err
}

// ownerKey orders the jobs of an account by time, newest first.
func ownerKey(j *Job) []byte {
	return append(numberedKey(tableOwner, j.Account, ^uint64(j.CreatedAt.UnixNano())), j.ID...)
}

// ownerValue is what jobs are filtered and sorted by.
func ownerValue(j *Job) []byte { return joborder.Value(string(j.State), cmp.Or(j.Name, j.Filename)) }
