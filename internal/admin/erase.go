package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"probity/api/record"
	"probity/coordinator"
	"probity/coordinator/erase"
	"probity/coordinator/singles"
	"probity/engine"
	"probity/internal/console"
	"probity/store"
	"probity/store/cache"
	"probity/store/feedback"
	"probity/store/history"
)

type eraseCmd struct {
	listFlags
	Address string `arg:"" optional:"" help:"The address to forget, in any of its spellings."`
	Receipt string `help:"Show this receipt again, as it is now." placeholder:"ID"`
	List    bool   `help:"Show the receipts of the newest 100 erasures."`
}

// Validate is called by the parser.
func (c *eraseCmd) Validate() error {
	asked := 0
	for _, given := range []bool{c.Address != "", c.Receipt != "", c.List} {
		if given {
			asked++
		}
	}
	if asked != 1 {
		return errors.New("give the address to forget, or --receipt ID, or --list")
	}
	return nil
}

// Run prints the receipt.
func (c *eraseCmd) Run(ctx context.Context, con *console.IO) error {
	return c.withClient(con, func(o client) error {
		receipts, err := c.receipts(ctx, o)
		if err != nil {
			return err
		}
		if err := console.PrintRows(con, c.JSON, "RECEIPT\tASKED\tSTATUS\tHASH\tJOBS\tROWS\tCACHED\tAGES OUT", receipts,
			receiptCells); err != nil {
			return err
		}
		if c.Address == "" || receipts[0].Status == "done" {
			return nil
		}
		why := ""
		if p := receipts[0].Problem; p != nil {
			why = ": " + *p
		}
		fmt.Fprintf(con.Err, "not finished%s. A running server tries again each minute; look with: probity erase --receipt %s\n", why, receipts[0].ID)
		return nil
	})
}

func (c *eraseCmd) receipts(ctx context.Context, o client) ([]record.Receipt, error) {
	var list struct{ Erasures []record.Receipt }
	var one record.Receipt
	switch {
	case c.List:
		err := o.call(ctx, http.MethodGet, "erasures?limit=100", nil, &list)
		return list.Erasures, err
	case c.Receipt != "":
		err := o.call(ctx, http.MethodGet, "erasures/"+url.PathEscape(c.Receipt), nil, &one)
		return []record.Receipt{one}, err
	default:
		err := o.call(ctx, http.MethodPost, "erase", map[string]any{"address": c.Address}, &one)
		return []record.Receipt{one}, err
	}
}

// shownHashLen is how many characters of an address hash a table shows, enough to identify a receipt. JSON has the
// whole hash.
const shownHashLen = 12

func receiptCells(r record.Receipt) []string {
	ages := make([]string, len(r.Expiring))
	for i, a := range r.Expiring {
		ages[i] = a.String()
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{r.ID, console.FormatTime(time.Time(r.Requested)), r.Status, r.Hash[:min(len(r.Hash), shownHashLen)],
		number(r.Jobs), number(r.Rows), number(r.Cached), strings.Join(ages, ", ")}
}

// EraseCalls erases an address from the history of accounts, and from single calls that are answered later.
func EraseCalls(h *history.History, late *singles.Late) func(ctx context.Context, folded string) error {
	return func(ctx context.Context, folded string) error {
		_, err := h.Erase(ctx, folded)
		return errors.Join(err, late.Erase(folded))
	}
}

// NewEraser makes the eraser of a store, its jobs, its feedback, its single calls and its caches. It also deletes
// answers that are stored under an Idempotency-Key. book is nil where no other part of the process uses the feedback.
func NewEraser(s *store.Store, jobs *coordinator.Coordinator, book *feedback.Book,
	calls func(context.Context, string) error, caches erase.Caches,
	log *slog.Logger) *erase.Eraser {
	storedAnswers := func(folded string) (int, error) {
		return s.EraseAnswers(func(body []byte) bool { return record.IsAnswerAbout(body, folded) })
	}
	reports := func(folded string) (int, error) {
		if book != nil {
			return book.Erase(folded)
		}
		opened, err := feedback.Open(s)
		if err != nil {
			return 0, err
		}
		return opened.Erase(folded)
	}
	return erase.New(erase.Config{Store: s, Jobs: jobs.ForErasure(), Caches: caches, Answers: storedAnswers,
		Reports: reports, Calls: calls, Log: log})
}

// LocalCache is the cache of this process as the only one.
type LocalCache struct{ *cache.Cache }

// Forget implements erase.Caches.
func (lc LocalCache) Forget(_ context.Context, folded string,
	done func(string) bool) (map[string]int, []string, error) {
	if done(console.HostName()) {
		return nil, nil, nil
	}
	a, err := engine.Parse(folded)
	if err != nil {
		return nil, nil, err
	}
	key, verdicts := lc.Keyer().Key(a), 0
	if _, cached := lc.Get(key, time.Now()); cached {
		verdicts = 1
	}
	if err := lc.Delete(key); err != nil {
		return nil, nil, err
	}
	return map[string]int{console.HostName(): verdicts}, nil, nil
}

// Reachable implements erase.Caches.
func (LocalCache) Reachable(string) bool { return true }
