package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"probity/store"
)

type userCmd struct {
	Add     userAddCmd     `cmd:"" help:"Make an account; its password is printed, this once."`
	List    userListCmd    `cmd:"" help:"List all accounts."`
	Disable userDisableCmd `cmd:"" help:"Refuse an account's keys and end its sessions; its jobs finish."`
	Enable  userEnableCmd  `cmd:"" help:"Undo a disabling."`
	Limit   userLimitCmd   `cmd:"" help:"Give an account limits of its own."`
}

// limitFlags are the limits of an account, one for each kind of request.
type limitFlags struct {
	Limit []string `help:"single=N/min or bulk=N/hour; repeatable. Default: 30 a minute and 10 an hour." placeholder:"KIND=N/UNIT"`
}

// limits reads the flags; what is not named is the default.
func (f *limitFlags) limits() (l store.Limits, err error) {
	for _, s := range f.Limit {
		kind, rate, _ := strings.Cut(s, "=")
		count, unit, _ := strings.Cut(rate, "/")
		n, err := strconv.Atoi(count)
		switch {
		case err != nil || n < 1 || n > store.MaxLimit:
			return l, limitError(s)
		case kind == "single" && (unit == "min" || unit == "minute"):
			l.SinglePerMinute = n
		case kind == "bulk" && (unit == "hour" || unit == "h"):
			l.BulkPerHour = n
		default:
			return l, limitError(s)
		}
	}
	return l, nil
}

func limitError(s string) error {
	return fmt.Errorf("%w: --limit %q; write single=N/min or bulk=N/hour, with N from 1 to %d", errUsage, s, store.MaxLimit)
}

type userAddCmd struct {
	listFlags
	limitFlags
	Email   string `arg:"" help:"The e-mail address that logs in."`
	Role    string `help:"admin or customer." enum:"admin,customer" default:"customer"`
	Credits int64  `help:"Credits to begin with." default:"0"`
}

// Run prints the password, and nothing else on standard output, or the account with it as JSON.
func (c *userAddCmd) Run(ctx context.Context, con *console) error {
	limits, err := c.limits()
	if err != nil {
		return err
	}
	return c.inOffice(con, true, func(o office) error {
		u, err := o.AddUser(ctx, store.NewUser{Email: c.Email, Role: store.Role(c.Role), Credits: c.Credits, Limits: limits})
		if err != nil {
			return err
		}
		if c.JSON {
			return printOne(con, u)
		}
		fmt.Fprintf(con.err, "%s %s made, with %s; the password is shown this once:\n", u.Role, u.Email, counted(c.Credits, "credit"))
		_, err = fmt.Fprintln(con.out, u.Password)
		return err
	})
}

type userListCmd struct{ listFlags }

// Run prints the accounts by e-mail address.
func (c *userListCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		users, err := o.Users(ctx)
		if err != nil {
			return err
		}
		return printUsers(con, c.JSON, users)
	})
}

func printUsers(con *console, asJSON bool, users []userView) error {
	return printRows(con, asJSON, "EMAIL\tROLE\tSTATE\tSINGLE/MIN\tBULK/HOUR\tCREATED\tID", users, func(u userView) []string {
		state := "active"
		if u.Disabled {
			state = "disabled"
		}
		limits := store.User{Limits: u.Limits}
		return []string{u.Email, string(u.Role), state, strconv.Itoa(limits.SinglePerMinute()), strconv.Itoa(limits.BulkPerHour()), moment(u.Created), u.ID}
	})
}

type userDisableCmd struct {
	listFlags
	User string `arg:"" name:"email" help:"E-mail address or id of the account."`
}

// Run prints the account as it is then.
func (c *userDisableCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		u, err := o.SetDisabled(ctx, c.User, true)
		if err != nil {
			return err
		}
		return printUsers(con, c.JSON, []userView{u})
	})
}

type userEnableCmd struct {
	listFlags
	User string `arg:"" name:"email" help:"E-mail address or id of the account."`
}

// Run prints the account as it is then.
func (c *userEnableCmd) Run(ctx context.Context, con *console) error {
	return c.in(con, func(o office) error {
		u, err := o.SetDisabled(ctx, c.User, false)
		if err != nil {
			return err
		}
		return printUsers(con, c.JSON, []userView{u})
	})
}

type userLimitCmd struct {
	listFlags
	limitFlags
	User string `arg:"" name:"email" help:"E-mail address or id of the account."`
}

// Run prints the account as it is then. A limit that is not named becomes the default.
func (c *userLimitCmd) Run(ctx context.Context, con *console) error {
	limits, err := c.limits()
	if err != nil {
		return err
	}
	return c.in(con, func(o office) error {
		u, err := o.SetLimits(ctx, c.User, limits)
		if err != nil {
			return err
		}
		return printUsers(con, c.JSON, []userView{u})
	})
}
