package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/alecthomas/kong"

	"probity/internal/console"
	"probity/store"
)

// Commands are the operator's commands. Each works on the data folder of a stopped server, or through a running server.
type Commands struct {
	User       userCmd       `cmd:"" help:"Make, list and disable accounts."`
	Key        keyCmd        `cmd:"" help:"Make, list and revoke API keys."`
	Credits    creditsCmd    `cmd:"" help:"Grant credits, show balance and ledger."`
	Suppress   suppressCmd   `cmd:"" help:"Manage the suppression list."`
	Erase      eraseCmd      `cmd:"" help:"Forget an address in caches and stored results."`
	Backup     backupCmd     `cmd:"" help:"Write a copy of the state store that can be restored."`
	Restore    restoreCmd    `cmd:"" help:"Make a data folder of a backup."`
	ReceiptKey receiptKeyCmd `cmd:"" name:"receipt-key" help:"Make a new key that signs receipts."`
	Audit      auditCmd      `cmd:"" help:"Who did what to accounts, keys and lists, when and from where."`
}

// resetView is a link for a new password. It is a path if the server does not know its public URL.
type resetView struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires_at"`
}

type creditsView struct {
	Balance  int64 `json:"balance"`
	Reserved int64 `json:"reserved"`
}

// ledgerEntryView is a line of a ledger.
type ledgerEntryView struct {
	Number   uint64     `json:"number"`
	Kind     store.Kind `json:"kind"`
	Credits  int64      `json:"credits"`
	Amount   int64      `json:"amount"`
	Cause    string     `json:"cause"`
	At       time.Time  `json:"at"`
	Balance  int64      `json:"balance"`
	Reserved int64      `json:"reserved"`
}

// targetFlags say where a command runs: on a data folder or through a server.
type targetFlags struct {
	Data   string `help:"Data folder of a stopped server; default: ${default}." default:"./probity-data" type:"path" placeholder:"DIR"`
	Server string `help:"A running server instead; the environment variable PROBITY_ADMIN_KEY holds a live key of an admin with the scope admin." placeholder:"URL"`
}

// KeyEnv names the environment variable with the key of an admin. It is not a flag: every user of the machine can see
// command lines.
const KeyEnv = "PROBITY_ADMIN_KEY"

// withClient opens the admin client, calls do with it, and closes it.
func (f *targetFlags) withClient(con *console.IO, do func(client) error) error {
	return f.withClientOf(con, openLocal, do)
}

// withClientOf is withClient where a data folder is opened in another way.
func (f *targetFlags) withClientOf(con *console.IO, open func(dir string) (client, error),
	do func(client) error) error {
	var o client
	var err error
	if f.Server != "" {
		o.api, err = NewRemote(con, f.Server)
		o.close = func() error { o.api.HTTP.CloseIdleConnections(); return nil }
	} else {
		o, err = open(f.Data)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(o), o.close())
}

// call makes the only request of a command, see client.call.
func (f *targetFlags) call(ctx context.Context, con *console.IO, method, path string, what, v any) error {
	return f.withClient(con, func(o client) error { return o.call(ctx, method, path, what, v) })
}

// listFlags are the flags of a command that prints a table.
type listFlags struct {
	targetFlags
	JSON bool `name:"json" help:"One JSON object a line instead of a table."`
}

// printJSONObject writes v as a JSON object.
func printJSONObject(con *console.IO, v any) error { return json.NewEncoder(con.Out).Encode(v) }

// AfterApply refuses --data together with --server on the command line. A --data there wins over a server from the
// environment or the configuration file.
func (f *targetFlags) AfterApply(k *kong.Context) error {
	typed := console.TypedFlags(k)
	switch {
	case typed["data"] && typed["server"]:
		return fmt.Errorf("%w: --data and --server at once; one says where", console.ErrUsage)
	case typed["data"]:
		f.Server = ""
	}
	return nil
}
