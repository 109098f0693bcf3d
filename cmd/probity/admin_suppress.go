package main

import (
	"context"
	"fmt"
)

type suppressCmd struct {
	Add    suppressAddCmd    `cmd:"" help:"Never probe a domain, an MX name or an address again."`
	List   suppressListCmd   `cmd:"" help:"List what is never probed."`
	Remove suppressRemoveCmd `cmd:"" help:"Take a wish off the list."`
}

// wishFlags name a wish.
type wishFlags struct {
	Kind string `help:"domain, mx or address. Default: an address when the name has an @, else a domain." enum:"domain,mx,address," default:""`
	Name string `arg:"" help:"The domain or MX name, with all below it, or the address."`
}

type suppressAddCmd struct {
	listFlags
	wishFlags
	Note string `help:"Who asked, and when." placeholder:"TEXT"`
}

// Run prints the wish, which holds from now on.
func (c *suppressAddCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		w, err := o.Suppress(ctx, c.Kind, c.Name, c.Note)
		if err != nil {
			return err
		}
		return printWishes(con, c.JSON, []wishView{w})
	})
}

func printWishes(con *console, asJSON bool, wishes []wishView) error {
	return printRows(con, asJSON, "KIND\tNAME\tSINCE\tNOTE", wishes, func(w wishView) []string {
		return []string{string(w.Kind), w.Name, moment(w.Since), w.Note}
	})
}

type suppressListCmd struct{ listFlags }

// Run prints the wishes by kind and name.
func (c *suppressListCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		wishes, err := o.Suppressions(ctx)
		if err != nil {
			return err
		}
		return printWishes(con, c.JSON, wishes)
	})
}

type suppressRemoveCmd struct {
	whereFlags
	wishFlags
}

// Run says so.
func (c *suppressRemoveCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		if err := o.Unsuppress(ctx, c.Kind, c.Name); err != nil {
			return err
		}
		_, err := fmt.Fprintf(con.err, "%s is off the list\n", printable(c.Name))
		return err
	})
}
