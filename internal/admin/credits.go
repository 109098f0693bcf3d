package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"probity/internal/console"
)

type creditsCmd struct {
	Grant   creditsGrantCmd   `cmd:"" help:"Grant credits, or take back what the balance covers."`
	Balance creditsBalanceCmd `cmd:"" help:"Show where an account stands."`
	Ledger  creditsLedgerCmd  `cmd:"" help:"Show an account's ledger, newest first."`
}

// userFlags name the account of a table.
type userFlags struct {
	listFlags
	User string `required:"" help:"E-mail address or id of the account." placeholder:"EMAIL"`
}

type creditsGrantCmd struct {
	userFlags
	Amount int64  `required:"" help:"How many; --amount=-N takes back." placeholder:"N"`
	Note   string `help:"Why, for the ledger." placeholder:"TEXT"`
	ID     string `name:"id" help:"Idempotency key: a second grant with the same id does nothing." placeholder:"ID"`
}

// Run prints the new balance.
func (c *creditsGrantCmd) Run(ctx context.Context, con *console.IO) error {
	what := map[string]any{"user": c.User, "amount": c.Amount, "note": c.Note, "grant_id": c.ID}
	var v creditsView
	if err := c.call(ctx, con, http.MethodPost, "credits", what, &v); err != nil {
		return err
	}
	return printCredits(con, c.JSON, v)
}

func printCredits(con *console.IO, asJSON bool, v creditsView) error {
	return console.PrintRows(con, asJSON, "BALANCE\tRESERVED", []creditsView{v}, func(v creditsView) []string {
		return []string{strconv.FormatInt(v.Balance, 10), strconv.FormatInt(v.Reserved, 10)}
	})
}

type creditsBalanceCmd struct{ userFlags }

// Run prints the credits that can be spent, and those reserved for running work.
func (c *creditsBalanceCmd) Run(ctx context.Context, con *console.IO) error {
	var v creditsView
	if err := c.call(ctx, con, http.MethodGet, withQuery("credits", "user", c.User), nil, &v); err != nil {
		return err
	}
	return printCredits(con, c.JSON, v)
}

type creditsLedgerCmd struct {
	userFlags
	Limit int `help:"How many entries; 0 for all." default:"100" placeholder:"N"`
}

// Validate is called by the parser.
func (c *creditsLedgerCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: give how many entries to show, or 0 for all", c.Limit)
	}
	return nil
}

// ledgerPageSize is how many entries one request asks for.
const ledgerPageSize = 100

// Run prints entries; the balance is the sum of all amounts.
func (c *creditsLedgerCmd) Run(ctx context.Context, con *console.IO) error {
	return c.withClient(con, func(o client) error {
		entries, err := c.entries(ctx, o)
		if err != nil {
			return err
		}
		number := func(n int64) string { return strconv.FormatInt(n, 10) }
		return console.PrintRows(con, c.JSON, "NUMBER\tAT\tKIND\tCREDITS\tAMOUNT\tBALANCE\tRESERVED\tCAUSE", entries,
			func(e ledgerEntryView) []string {
				return []string{strconv.FormatUint(e.Number, 10), console.FormatTime(e.At), string(e.Kind),
					number(e.Credits), number(e.Amount), number(e.Balance),
					number(e.Reserved), e.Cause}
			})
	})
}

// entries reads page after page, up to the limit.
func (c *creditsLedgerCmd) entries(ctx context.Context, o client) (all []ledgerEntryView, err error) {
	cursor := ""
	for {
		n := ledgerPageSize
		if c.Limit > 0 {
			n = min(n, c.Limit-len(all))
		}
		var page struct{ Entries []ledgerEntryView }
		if err := o.call(ctx, http.MethodGet, withQuery("ledger", "user", c.User, "limit", strconv.Itoa(n), "cursor",
			cursor), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if len(page.Entries) < n || len(all) == c.Limit {
			return all, nil
		}
		cursor = strconv.FormatUint(all[len(all)-1].Number, 10)
	}
}
