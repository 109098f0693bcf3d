package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"probity/api/record"
	"probity/internal/console"
)

type suppressCmd struct {
	Add    suppressAddCmd    `cmd:"" help:"Never probe a domain, an MX name or an address again."`
	List   suppressListCmd   `cmd:"" help:"List what is never probed."`
	Remove suppressRemoveCmd `cmd:"" help:"Remove a suppression."`
}

// suppressionFlags name an entry of the suppression list.
type suppressionFlags struct {
	Kind string `help:"domain, mx or address. Default: an address when the name has an @, else a domain." enum:"domain,mx,address," default:""`
	Name string `arg:"" help:"The domain or MX name, with all below it, or the address."`
}

type suppressAddCmd struct {
	listFlags
	suppressionFlags
	Note string `help:"Who asked, and when." placeholder:"TEXT"`
}

// Run prints the suppression, which is in force from now on.
func (c *suppressAddCmd) Run(ctx context.Context, con *console.IO) error {
	what := map[string]any{"name": c.Name, "note": c.Note}
	if c.Kind != "" {
		what["kind"] = c.Kind
	}
	var added record.Suppression
	if err := c.call(ctx, con, http.MethodPost, "suppressions", what, &added); err != nil {
		return err
	}
	return printSuppressions(con, c.JSON, []record.Suppression{added})
}

func printSuppressions(con *console.IO, asJSON bool, suppressions []record.Suppression) error {
	return console.PrintRows(con, asJSON, "KIND\tNAME\tSINCE\tNOTE", suppressions, func(w record.Suppression) []string {
		return []string{string(w.Kind), w.Name, console.FormatTime(time.Time(w.Since)), w.Note}
	})
}

type suppressListCmd struct{ listFlags }

// Run prints the suppressions by kind and name.
func (c *suppressListCmd) Run(ctx context.Context, con *console.IO) error {
	var list struct{ Suppressions []record.Suppression }
	if err := c.call(ctx, con, http.MethodGet, "suppressions", nil, &list); err != nil {
		return err
	}
	return printSuppressions(con, c.JSON, list.Suppressions)
}

type suppressRemoveCmd struct {
	targetFlags
	suppressionFlags
}

// Run removes the suppression.
func (c *suppressRemoveCmd) Run(ctx context.Context, con *console.IO) error {
	if err := c.call(ctx, con, http.MethodDelete, withQuery("suppressions", "kind", c.Kind, "name", c.Name), nil,
		nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(con.Err, "%s is off the list\n", console.Printable(c.Name))
	return err
}
