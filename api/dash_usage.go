package api

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"probity/api/httpd"
	"probity/engine"
	"probity/store"
)

// The bounds of what a usage report reads. For an account beyond them the report has the newest days and says so.
const (
	maxUsageEntries = 50_000
	maxUsageJobs    = 2_000
	maxUsageDays    = 90
)

// usageDay is the usage of an account on one day (UTC).
type usageDay struct {
	Date    string           `json:"date"`
	Counts  map[string]int64 `json:"counts"`  // rows of jobs that ended that day, by status
	Singles int64            `json:"singles"` // single verifications that gave a verdict
	Used    int64            `json:"credits_used"`
	Granted int64            `json:"credits_granted"`
}

// usage collects the days of an account from its ledger and its jobs.
type usage struct {
	srv      *Server
	account  string
	from     time.Time // the start of the report
	days     []usageDay
	keys     map[keyDay]*usageDay // the same for each key
	jobs     map[string]jobCharge // what jobs cost, by id
	complete bool
}

// keyDay is one day of one key.
type keyDay struct{ date, key string }

// jobCharge is what a job cost on a day.
type jobCharge struct {
	day  *usageDay
	used int64
}

// The key id of usage without a key, and of usage whose key is no longer known.
const (
	keyDashboard = ""
	keyDeleted   = "deleted"
)

func getUsage(c *call) error {
	days, err := c.QueryNumber("days", 30, 1, maxUsageDays)
	if err != nil {
		return err
	}
	u := newUsage(c.srv, c.identity.User.ID, int(days))
	byKey, err := u.load()
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"days": u.days, "by_key": byKey, "complete": u.complete})
}

// load reads everything and returns the days of the keys that were used.
func (u *usage) load() ([]keyUsageDay, error) {
	if err := errors.Join(u.readLedger(), u.readJobs()); err != nil {
		return nil, err
	}
	for _, c := range u.jobs { // of jobs that have been deleted
		u.keyUsage(c.day, keyDeleted).Used += c.used
	}
	return u.byKey()
}

func newUsage(s *Server, account string, days int) *usage {
	today := s.now().UTC().Truncate(24 * time.Hour)
	u := &usage{srv: s, account: account, from: today.AddDate(0, 0, 1-days), complete: true, days: make([]usageDay, days),
		keys: make(map[keyDay]*usageDay), jobs: make(map[string]jobCharge)}
	for i := range u.days {
		u.days[i] = usageDay{Date: u.from.AddDate(0, 0, i).Format(time.DateOnly), Counts: make(map[string]int64, 4)}
		for status := engine.Unknown; status <= engine.Invalid; status++ {
			u.days[i].Counts[status.String()] = 0
		}
	}
	return u
}

// day is the day that a time counts for; nil if it is not in the report.
func (u *usage) day(t time.Time) *usageDay {
	i := int(t.Sub(u.from) / (24 * time.Hour))
	if t.Before(u.from) || i >= len(u.days) {
		return nil
	}
	return &u.days[i]
}

func (u *usage) readLedger() error {
	var before uint64
	for range maxUsageEntries / store.MaxPage {
		entries, err := u.srv.deps.Store.Ledger(u.account, before, store.MaxPage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			d := u.day(e.At)
			if d == nil {
				return nil
			}
			u.add(d, &e)
			before = e.Number
		}
		if len(entries) < store.MaxPage {
			return nil
		}
	}
	u.complete = false
	return nil
}

// add counts a ledger entry. A single verification without a verdict has none.
func (u *usage) add(d *usageDay, e *store.Entry) {
	switch e.Kind {
	case store.Grant:
		d.Granted += e.Credits
	case store.Charge:
		d.Used += e.Credits
		if id, ok := strings.CutPrefix(e.Cause, "job "); ok {
			u.jobs[id] = jobCharge{d, e.Credits}
			return
		}
		_, key := e.CutKey()
		k := u.keyUsage(d, key)
		d.Singles++
		k.Singles++
		k.Used += e.Credits
	}
}

// keyUsage is the usage of a key on a day.
func (u *usage) keyUsage(d *usageDay, key string) *usageDay {
	at := keyDay{d.Date, key}
	if u.keys[at] == nil {
		u.keys[at] = &usageDay{Date: d.Date, Counts: make(map[string]int64, 4)}
	}
	return u.keys[at]
}

func (u *usage) readJobs() error {
	cursor := ""
	for range maxUsageJobs / maxPage {
		jobs, next, err := u.srv.deps.Coordinator.Jobs(u.account, "", maxPage, cursor)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if d := u.day(j.FinishedAt); d != nil && !j.Test {
				u.addJob(d, j)
			}
		}
		if next == "" || jobs[len(jobs)-1].CreatedAt.Before(u.from.AddDate(0, 0, -14)) {
			return nil // no job runs longer than that: 72 hours, and seven days of pause
		}
		cursor = next
	}
	u.complete = false
	return nil
}

// addJob counts a job on the day of its end.
func (u *usage) addJob(d *usageDay, j *store.Job) {
	k := u.keyUsage(d, j.Key)
	for status, n := range j.Counts {
		d.Counts[status] += n
		k.Counts[status] += n
	}
	if c, ok := u.jobs[j.ID]; ok {
		u.keyUsage(c.day, j.Key).Used += c.used
		delete(u.jobs, j.ID)
	}
}

func getOwnLedger(c *call) error { return sendLedger(c, c.identity.User.ID) }

// getLedgerFile streams the whole ledger, newest first.
func getLedgerFile(c *call) error {
	h := &c.Ctx.Response.Header
	h.SetContentType("text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="ledger.csv"`)
	if c.Ctx.IsHead() {
		c.Ctx.Response.SetBodyStream(strings.NewReader(""), -1)
		return nil
	}
	s, account := c.srv, c.identity.User.ID
	r, w := io.Pipe()
	s.http.Stream(func() {
		out := bufio.NewWriterSize(w, 32<<10)
		w.CloseWithError(errors.Join(s.writeLedger(out, account), out.Flush()))
	})
	c.Ctx.Response.SetBodyStream(r, -1)
	return nil
}

func (s *Server) writeLedger(w io.Writer, account string) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"number", "at", "kind", "credits", "amount", "cause", "balance", "reserved", "key_id"}); err != nil {
		return err
	}
	var before uint64
	for {
		if err := s.http.StopContext().Err(); err != nil {
			return err
		}
		entries, err := s.deps.Store.Ledger(account, before, store.MaxPage)
		if err != nil {
			return err
		}
		for _, e := range entries {
			before = e.Number
			if err := out.Write(ledgerRecord(e)); err != nil {
				return err
			}
		}
		out.Flush()
		if err := out.Error(); err != nil || len(entries) < store.MaxPage {
			return err
		}
	}
}

// ledgerRecord is an entry as cells. A cause that a spreadsheet would read as a formula is prefixed, as in result files.
func ledgerRecord(e store.Entry) []string {
	cause, key := e.CutKey()
	if cause != "" && strings.ContainsRune("=+-@\t\r", rune(cause[0])) {
		cause = "'" + cause
	}
	return []string{strconv.FormatUint(e.Number, 10), e.At.UTC().Format(time.RFC3339), string(e.Kind), strconv.FormatInt(e.Credits, 10),
		strconv.FormatInt(e.Amount, 10), cause, strconv.FormatInt(e.Balance, 10), strconv.FormatInt(e.Reserved, 10), key}
}
