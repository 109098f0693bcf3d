package main

import (
	"context"
	"fmt"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make an API key and print it, this once."`
	List   keyListCmd   `cmd:"" help:"List API keys, without their secrets."`
	Revoke keyRevokeCmd `cmd:"" help:"Refuse a key from the next request on."`
}

type keyCreateCmd struct {
	whereFlags
	User string `required:"" help:"E-mail address or id of the account." placeholder:"EMAIL"`
	Name string `required:"" help:"What the key is for." placeholder:"NAME"`
	Test bool   `help:"A test key: costs nothing, probes nothing."`
}

// Run prints the key, and nothing else on standard output.
func (c *keyCreateCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		k, err := o.CreateKey(ctx, c.User, c.Name, c.Test)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(con.out, k.Secret)
		return err
	})
}

type keyListCmd struct {
	listFlags
	User string `help:"Of this account only: e-mail address or id." placeholder:"EMAIL"`
}

// Run prints the keys that are not revoked.
func (c *keyListCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		keys, err := o.Keys(ctx, c.User)
		if err != nil {
			return err
		}
		return printRows(con, c.JSON, "ID\tUSER\tNAME\tKIND\tENDS IN\tCREATED\tLAST USED", keys, func(k keyView) []string {
			kind, used := "live", ""
			if k.Test {
				kind = "test"
			}
			if k.LastUsed != nil {
				used = moment(*k.LastUsed)
			}
			return []string{k.ID, k.User, k.Name, kind, k.Last4, moment(k.Created), used}
		})
	})
}

type keyRevokeCmd struct {
	whereFlags
	ID string `arg:"" help:"The key's id, as key list shows it."`
}

// Run says so.
func (c *keyRevokeCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		if err := o.RevokeKey(ctx, c.ID); err != nil {
			return err
		}
		_, err := fmt.Fprintf(con.err, "key %s is revoked\n", c.ID)
		return err
	})
}
