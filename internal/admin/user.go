package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"probity/api/record"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/store"
)

type userCmd struct {
	Add     userAddCmd     `cmd:"" help:"Make an account; its password is printed, this once."`
	List    userListCmd    `cmd:"" help:"List all accounts."`
	Disable userDisableCmd `cmd:"" help:"Refuse an account's keys and end its sessions; its jobs finish."`
	Enable  userEnableCmd  `cmd:"" help:"Enable an account."`
	Limit   userLimitCmd   `cmd:"" help:"Give an account limits of its own; one that is not named becomes the default."`
	Reset   userResetCmd   `cmd:"" help:"Print a link that gives an account a new password, good once and for an hour."`
	TOTPOff userTOTPOffCmd `cmd:"" name:"totp-off" help:"Let an account whose authenticator app is lost sign in without a code; its sessions end."`
	Secret  userSecretCmd  `cmd:"" name:"callback-secret" help:"Print a new signing secret for an account's callbacks; the one before stays valid for 24 hours."`
	First   userFirstCmd   `cmd:"" name:"first-password" help:"Print the password that the first start gave the first admin."`
}

// limitFlags are the limits of an account, one for each kind of request.
type limitFlags struct {
	Limit []string `help:"single=N/min, batch=N/min or bulk=N/hour; repeatable. Default: 30 and 60 a minute, and 10 an hour." placeholder:"KIND=N/UNIT"`
}

// limits reads the flags; a limit that is not named is the default.
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
		case kind == "batch" && (unit == "min" || unit == "minute"):
			l.BatchPerMinute = n
		case kind == "bulk" && (unit == "hour" || unit == "h"):
			l.BulkPerHour = n
		default:
			return l, limitError(s)
		}
	}
	return l, nil
}

func limitError(s string) error {
	return fmt.Errorf("%w: --limit %q; write single=N/min, batch=N/min or bulk=N/hour, with N from 1 to %d",
		console.ErrUsage, s, store.MaxLimit)
}

type userAddCmd struct {
	listFlags
	limitFlags
	Email   string `arg:"" help:"The e-mail address that logs in."`
	Role    string `help:"admin or customer." enum:"admin,customer" default:"customer"`
	Credits int64  `help:"Credits to begin with." default:"0"`
}

// Validate is called by the parser.
func (c *userAddCmd) Validate() error {
	if c.Credits < 0 {
		return fmt.Errorf("--credits %d: give a number from 0", c.Credits)
	}
	return nil
}

// Run prints only the password on standard output, or the account with it as JSON.
func (c *userAddCmd) Run(ctx context.Context, con *console.IO) error {
	limits, err := c.limits()
	if err != nil {
		return err
	}
	return c.withClientOf(con, openOrMakeLocal, func(o client) error {
		var u record.User
		what := map[string]any{"email": c.Email, "role": c.Role, "credits": c.Credits, "limits": limits}
		if err := o.call(ctx, http.MethodPost, "users", what, &u); err != nil {
			return err
		}
		if c.JSON {
			err = printJSONObject(con, u)
		} else {
			fmt.Fprintf(con.Err, "%s %s made, with %s; the password is shown this once:\n", u.Role, u.Email,
				console.Counted(c.Credits, "credit"))
			_, err = fmt.Fprintln(con.Out, u.Password)
		}
		return errors.Join(err, warnWithoutAdmin(ctx, con, o)) // after the password, which is not shown again
	})
}

// accountFlags name the account of a command.
type accountFlags struct {
	listFlags
	User string `arg:"" name:"email" help:"E-mail address or id of the account."`
}

// change makes a request that changes something of the account, and prints the changed account.
func (f *accountFlags) change(ctx context.Context, con *console.IO, method, verb string, what any) error {
	var u record.User
	if err := f.call(ctx, con, method, "users/"+url.PathEscape(f.User)+"/"+verb, what, &u); err != nil {
		return err
	}
	return printUsers(con, f.JSON, []record.User{u})
}

type userResetCmd struct {
	accountFlags
	PublicURL string `help:"How people reach the server, where it does not know that itself; default: --server, else http://127.0.0.1:8080." placeholder:"URL"`
}

// Run prints only the link on standard output, or JSON with its expiry.
func (c *userResetCmd) Run(ctx context.Context, con *console.IO) error {
	return c.withClient(con, func(o client) error {
		var link resetView
		if err := o.call(ctx, http.MethodPost, "users/"+url.PathEscape(c.User)+"/reset", nil, &link); err != nil {
			return err
		}
		if strings.HasPrefix(link.URL, "/") {
			link.URL = strings.TrimSuffix(cmp.Or(c.PublicURL, c.Server, "http://127.0.0.1:8080"), "/") + link.URL
		}
		if c.JSON {
			return printJSONObject(con, link)
		}
		fmt.Fprintf(con.Err, "good once, until %s; its use ends all sessions of the account:\n",
			console.FormatTime(link.Expires))
		_, err := fmt.Fprintln(con.Out, link.URL)
		return err
	})
}

type userSecretCmd struct {
	accountFlags
	Off bool `help:"Stop signing: all secrets of the account end at once."`
}

// newSecret is the answer of the server with a new signing secret.
type newSecret struct {
	Secret      string       `json:"secret"`
	FormerUntil *record.Time `json:"former_until"`
}

// Run prints only the secret on standard output, or JSON with the end of the one before.
func (c *userSecretCmd) Run(ctx context.Context, con *console.IO) error {
	path := "users/" + url.PathEscape(c.User) + "/callback-secret"
	if c.Off {
		return c.call(ctx, con, http.MethodDelete, path, nil, nil)
	}
	var made newSecret
	if err := c.call(ctx, con, http.MethodPost, path, nil, &made); err != nil {
		return err
	}
	if c.JSON {
		return printJSONObject(con, made)
	}
	fmt.Fprintln(con.Err, "callbacks are signed from now on; the secret is shown this once:")
	if made.FormerUntil != nil {
		fmt.Fprintf(con.Err, "the secret before it stays valid until %s\n",
			console.FormatTime(time.Time(*made.FormerUntil)))
	}
	_, err := fmt.Fprintln(con.Out, made.Secret)
	return err
}

type userTOTPOffCmd struct{ accountFlags }

// Run prints the changed account.
func (c *userTOTPOffCmd) Run(ctx context.Context, con *console.IO) error {
	return c.change(ctx, con, http.MethodPost, "totp-off", nil)
}

type userFirstCmd struct {
	Data string `help:"The data folder of the server, which may be running; default: ${default}." default:"./probity-data" type:"path" placeholder:"DIR"`
}

// Run prints only the password: an image without a shell has no other way to read the file.
func (c *userFirstCmd) Run(con *console.IO) error {
	password, err := os.ReadFile(filepath.Join(c.Data, datafolder.FirstPasswordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s in %s: the first start writes it, and it is yours to delete: make a new password with probity user reset EMAIL", datafolder.FirstPasswordFile, c.Data)
	}
	if err != nil {
		return err
	}
	_, err = con.Out.Write(password)
	return err
}

// warnWithoutAdmin warns if no active account is an admin: serve makes an admin only if there is no account at all.
func warnWithoutAdmin(ctx context.Context, con *console.IO, o client) error {
	var list struct{ Users []record.User }
	if err := o.call(ctx, http.MethodGet, "users", nil, &list); err != nil {
		return fmt.Errorf("looking for an admin: %w", err)
	}
	isAdmin := func(u record.User) bool { return u.Role == store.Admin && !u.Disabled }
	if !slices.ContainsFunc(list.Users, isAdmin) {
		fmt.Fprintln(con.Err, "warning: no account is an admin, and serve makes one only if there is no account at all; make one with: probity user add EMAIL --role admin")
	}
	return nil
}

type userListCmd struct{ listFlags }

// Run prints the accounts by e-mail address.
func (c *userListCmd) Run(ctx context.Context, con *console.IO) error {
	var list struct{ Users []record.User }
	if err := c.call(ctx, con, http.MethodGet, "users", nil, &list); err != nil {
		return err
	}
	return printUsers(con, c.JSON, list.Users)
}

func printUsers(con *console.IO, asJSON bool, users []record.User) error {
	return console.PrintRows(con, asJSON, "EMAIL\tROLE\tSTATE\tSINGLE/MIN\tBULK/HOUR\tCREATED\tTOTP\tID", users,
		func(u record.User) []string {
			state := "active"
			if u.Disabled {
				state = "disabled"
			}
			totp := "off"
			if u.TOTP {
				totp = "on"
			}
			limits := store.User{Limits: u.Limits}
			return []string{u.Email, string(u.Role), state, strconv.Itoa(limits.SinglePerMinute()),
				strconv.Itoa(limits.BulkPerHour()), console.FormatTime(time.Time(u.Created)), totp, u.ID}
		})
}

type userDisableCmd struct{ accountFlags }

// Run prints the changed account.
func (c *userDisableCmd) Run(ctx context.Context, con *console.IO) error {
	return c.change(ctx, con, http.MethodPost, "disable", nil)
}

type userEnableCmd struct{ accountFlags }

// Run prints the changed account.
func (c *userEnableCmd) Run(ctx context.Context, con *console.IO) error {
	return c.change(ctx, con, http.MethodPost, "enable", nil)
}

type userLimitCmd struct {
	accountFlags
	limitFlags
}

// Run prints the changed account. A limit that is not named becomes the default.
func (c *userLimitCmd) Run(ctx context.Context, con *console.IO) error {
	if len(c.Limit) == 0 {
		return fmt.Errorf("%w: --limit is missing; give single=N/min, batch=N/min or bulk=N/hour, or several; user list shows the limits of now", console.ErrUsage)
	}
	limits, err := c.limits()
	if err != nil {
		return err
	}
	return c.change(ctx, con, http.MethodPut, "limits", limits)
}
