package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"probity/api/record"
	"probity/coordinator"
	"probity/engine"
	"probity/store"
	"probity/store/cache"
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
func (c *eraseCmd) Run(ctx context.Context, con *console) error {
	return c.withAdmin(con, func(o adminClient) error {
		receipts, err := c.receipts(ctx, o)
		if err != nil {
			return err
		}
		if err := printRows(con, c.JSON, "RECEIPT\tASKED\tSTATUS\tHASH\tJOBS\tROWS\tCACHED\tAGES OUT", receipts, receiptCells); err != nil {
			return err
		}
		if c.Address == "" || receipts[0].Status == "done" {
			return nil
		}
		why := ""
		if p := receipts[0].Problem; p != nil {
			why = ": " + *p
		}
		fmt.Fprintf(con.err, "not finished%s. A running server tries again each minute; look with: probity erase --receipt %s\n", why, receipts[0].ID)
		return nil
	})
}

func (c *eraseCmd) receipts(ctx context.Context, o adminClient) ([]record.Receipt, error) {
	if c.List {
		return o.Receipts(ctx)
	}
	one := func() (record.Receipt, error) { return o.Erase(ctx, c.Address) }
	if c.Receipt != "" {
		one = func() (record.Receipt, error) { return o.Receipt(ctx, c.Receipt) }
	}
	r, err := one()
	return []record.Receipt{r}, err
}

// shownHashLen is how many characters of an address hash a table shows, enough to identify a receipt. JSON has the whole hash.
const shownHashLen = 12

func receiptCells(r record.Receipt) []string {
	ages := make([]string, len(r.Expiring))
	for i, a := range r.Expiring {
		ages[i] = a.String()
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{r.ID, formatTime(time.Time(r.Requested)), r.Status, r.Hash[:min(len(r.Hash), shownHashLen)], number(r.Jobs), number(r.Rows), number(r.Cached), strings.Join(ages, ", ")}
}

// storedAnswerEraser deletes the answers about an address that are stored under an Idempotency-Key.
func storedAnswerEraser(s *store.Store) func(folded string) (int, error) {
	return func(folded string) (int, error) {
		return s.EraseAnswers(func(body []byte) bool { return record.IsAnswerAbout(body, folded) })
	}
}

// newEraser makes the eraser of a node. It erases from the cache of this process, or from those of the coordinator's nodes.
func (n *node) newEraser() *coordinator.Eraser {
	cfg := coordinator.EraserConfig{Store: n.store, Jobs: n.coordinator, Answers: storedAnswerEraser(n.store), Log: n.log}
	if n.fleet != nil {
		cfg.Caches = n.fleet
	} else {
		cfg.Caches = localCaches{n.cache}
	}
	return coordinator.NewEraser(cfg)
}

// localCaches is the cache of this process as the only one.
type localCaches struct{ *cache.Cache }

// Forget implements coordinator.Caches.
func (k localCaches) Forget(_ context.Context, folded string, done func(string) bool) (map[string]int, []string, error) {
	if done(hostName()) {
		return nil, nil, nil
	}
	a, err := engine.Parse(folded)
	if err != nil {
		return nil, nil, err
	}
	key, verdicts := k.Keyer().Key(a), 0
	if _, cached := k.Get(key, time.Now()); cached {
		verdicts = 1
	}
	if err := k.Delete(key); err != nil {
		return nil, nil, err
	}
	return map[string]int{hostName(): verdicts}, nil, nil
}

// Reachable implements coordinator.Caches.
func (localCaches) Reachable(string) bool { return true }
