package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"probity/api/record"
	"probity/internal/console"
	"probity/store"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make an API key and print it, this once."`
	List   keyListCmd   `cmd:"" help:"List API keys, without their secrets."`
	Revoke keyRevokeCmd `cmd:"" help:"Refuse a key from the next request on."`
}

type keyCreateCmd struct {
	targetFlags
	User string `required:"" help:"E-mail address or id of the account." placeholder:"EMAIL"`
	Name string `required:"" help:"What the key is for." placeholder:"NAME"`
	Test bool   `help:"A test key: costs nothing, probes nothing."`

	Scope   []string `help:"What the key opens: verify, jobs, account, admin (of an admin's account); repeatable. Default: verify and jobs." placeholder:"SCOPE"`
	Expires string   `help:"When it ends: a date, a time such as 2027-01-31T12:00:00Z, or a number of days such as 90d. Default: never." placeholder:"WHEN"`
	Network []string `help:"Where it may be used from: an address or a prefix; repeatable. Default: anywhere." placeholder:"CIDR"`
}

// newKey reads the flags.
func (c *keyCreateCmd) newKey(now time.Time) (n store.NewKey, err error) {
	n = store.NewKey{Name: c.Name, Test: c.Test}
	if n.Scopes, err = store.ParseScopes(c.Scope); err != nil {
		return n, fmt.Errorf("%w: --scope: %v", console.ErrUsage, err)
	}
	if n.Networks, err = store.ParseNetworks(c.Network); err != nil {
		return n, fmt.Errorf("%w: --network: %v", console.ErrUsage, err)
	}
	if c.Expires == "" {
		return n, nil
	}
	n.Expires, err = parseExpiry(c.Expires, now)
	if err == nil && !n.Expires.After(now) {
		err = fmt.Errorf("%w: --expires %s is over; give a later date or time, or days such as 90d", console.ErrUsage,
			c.Expires)
	}
	return n, err
}

// maxExpiryDays bounds --expires in days.
const maxExpiryDays = 36_500

// parseExpiry reads a date (its first moment in UTC), a time, or a number of days from now.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= maxExpiryDays {
			return now.AddDate(0, 0, n), nil
		}
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(form, s); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%w: --expires %q; write a date such as 2027-01-31, a time such as 2027-01-31T12:00:00Z, or days such as 90d", console.ErrUsage, s)
}

// Run prints the key, and nothing else on standard output.
func (c *keyCreateCmd) Run(ctx context.Context, con *console.IO) error {
	n, err := c.newKey(time.Now())
	if err != nil {
		return err
	}
	return c.withClient(con, func(o client) error {
		what := map[string]any{"user": c.User, "name": n.Name, "test": n.Test, "scopes": n.Scopes}
		if !n.Expires.IsZero() {
			what["expires_at"] = n.Expires.Format(time.RFC3339)
		}
		if n.Networks != nil {
			what["networks"] = n.Networks
		}
		var k record.Key
		if err := o.call(ctx, http.MethodPost, "keys", what, &k); err != nil {
			return err
		}
		_, err := fmt.Fprintln(con.Out, k.Secret)
		return err
	})
}

type keyListCmd struct {
	listFlags
	User string `help:"Of this account only: e-mail address or id." placeholder:"EMAIL"`
}

// Run prints the keys that are not revoked.
func (c *keyListCmd) Run(ctx context.Context, con *console.IO) error {
	var list struct{ Keys []record.Key }
	if err := c.call(ctx, con, http.MethodGet, withQuery("keys", "user", c.User), nil, &list); err != nil {
		return err
	}
	return console.PrintRows(con, c.JSON, "ID\tUSER\tNAME\tKIND\tLAST CHARACTERS\tSCOPES\tNETWORKS\tEXPIRES\tCREATED\tLAST USED", list.Keys, func(k record.Key) []string {
		kind, used, expires := "live", "", ""
		if k.Test {
			kind = "test"
		}
		if k.LastUsed != nil {
			used = console.FormatTime(time.Time(*k.LastUsed))
		}
		if k.Expires != nil {
			expires = console.FormatTime(time.Time(*k.Expires))
		}
		var networks []string
		for _, p := range k.Networks {
			networks = append(networks, p.String())
		}
		return []string{k.ID, k.User, k.Name, kind, k.Last4, strings.Join(k.Scopes.Names(), ","),
			strings.Join(networks, ","), expires, console.FormatTime(time.Time(k.Created)), used}
	})
}

type keyRevokeCmd struct {
	targetFlags
	ID string `arg:"" help:"The key's id, as key list shows it."`
}

// Run revokes the key.
func (c *keyRevokeCmd) Run(ctx context.Context, con *console.IO) error {
	if err := c.call(ctx, con, http.MethodDelete, "keys/"+url.PathEscape(c.ID), nil, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(con.Err, "key %s is revoked\n", c.ID)
	return err
}
