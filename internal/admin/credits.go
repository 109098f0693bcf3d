package admin

import (
	"context"
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
	return c.withClient(con, func(o client) error {
		v, err := o.Grant(ctx, grant{User: c.User, Amount: c.Amount, Note: c.Note, ID: c.ID})
		if err != nil {
			return err
		}
		return printCredits(con, c.JSON, v)
	})
}

func printCredits(con *console.IO, asJSON bool, v creditsView) error {
	return console.PrintRows(con, asJSON, "BALANCE\tRESERVED", []creditsView{v}, func(v creditsView) []string {
		return []string{strconv.FormatInt(v.Balance, 10), strconv.FormatInt(v.Reserved, 10)}
	})
}

type creditsBalanceCmd struct{ userFlags }

// Run prints the credits that can be spent, and those reserved for running work.
func (c *creditsBalanceCmd) Run(ctx context.Context, con *console.IO) error {
	return c.withClient(con, func(o client) error {
		v, err := o.Balance(ctx, c.User)
		if err != nil {
			return err
		}
		return printCredits(con, c.JSON, v)
	})
}

type creditsLedgerCmd struct {
	userFlags
	Limit int `help:"How many entries; 0 for all." default:"100" placeholder:"N"`
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
		return console.PrintRows(con, c.JSON, "NUMBER\tAT\tKIND\tCREDITS\tAMOUNT\tBALANCE\tRESERVED\tCAUSE", entries, func(e ledgerEntryView) []string {
			return []string{strconv.FormatUint(e.Number, 10), console.FormatTime(e.At), string(e.Kind), number(e.Credits), number(e.Amount), number(e.Balance),
				number(e.Reserved), e.Cause}
		})
	})
}

// entries reads page after page, up to the limit.
func (c *creditsLedgerCmd) entries(ctx context.Context, o client) (all []ledgerEntryView, err error) {
	before := uint64(0)
	for {
		n := ledgerPageSize
		if c.Limit > 0 {
			n = min(n, c.Limit-len(all))
		}
		page, err := o.Ledger(ctx, c.User, before, n)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < n || len(all) == c.Limit {
			return all, nil
		}
		before = page[len(page)-1].Number
	}
}
