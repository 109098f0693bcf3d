package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/app"
	"probity/internal/console"
	"probity/internal/memlimit"
	"probity/internal/nodeflags"
	"probity/store/diskroom"
)

// Command verifies addresses or a list.
type Command struct {
	nodeflags.Probing
	nodeflags.ListChanges
	Targets     []string      `arg:"" help:"Addresses, or one file of CSV or JSON lines, or - for one on standard input."`
	Output      string        `short:"o" help:"Result file of a list; its ending decides: .csv, .csv.gz, .csv.zst, .jsonl. Default: CSV on standard output." placeholder:"FILE"`
	Force       bool          `help:"A list: write over a result file that is already there."`
	JSON        bool          `name:"json" help:"Addresses: one JSON object a line."`
	Details     bool          `help:"What each verdict rests on: the details of addresses, with --json; more columns of a list's result."`
	Timeout     time.Duration `help:"Timeout for each address." default:"30s"`
	MaxAge      app.Period    `help:"The oldest cached answer that will do, such as 7d or 36h; 0 forces a fresh probe." default:"7d"`
	NoSMTP      bool          `name:"no-smtp" help:"Connect to no mail server."`
	Column      string        `help:"A list's e-mail column: header name or 1-based index; default: email." placeholder:"NAME"`
	ForceColumn bool          `help:"A list: verify it even if almost no cell of its e-mail column looks like an address."`
	NoHead      bool          `name:"no-header" help:"The list has no header. Its e-mail column is then the first with an address in the first row; where that row has none, give --column an index."`

	typed map[string]bool // flags on the command line itself; one configuration is for addresses and for lists
}

// AfterApply is called by the parser.
func (c *Command) AfterApply(parsed *kong.Context) error {
	c.typed = console.TypedFlags(parsed)
	return nil
}

// Run verifies addresses or a list.
func (c *Command) Run(ctx context.Context, con *console.IO) error {
	memlimit.Adjust(ctx, memoryLimit)
	log := slog.New(diskroom.Quiet(con.Log().Handler()))
	c.Warm = true // the age of a source is not known here
	file, isList := c.listTarget()
	var err error
	if isList {
		err = c.checkListTarget(file)
	} else {
		err = c.checkAddressTargets()
	}
	if err != nil {
		return err
	}
	if !c.NoSMTP && c.Anonymous() {
		fmt.Fprintln(con.Err, "warning:", nodeflags.AnonymousWarning)
	}
	if isList {
		return c.verifyList(ctx, con, log, file)
	}
	return c.verifyAddresses(ctx, con, log)
}

// memoryLimit is where the garbage collector begins to work harder, unless the environment sets GOMEMLIMIT. Memory use
// stays well below it for any length of list. Distant hosts keep more rows in flight, so that a lower limit would cost
// processor time.
const memoryLimit = 300 << 20

// stdin is the target that is a list on standard input.
const stdin = "-"

// listTarget reports whether the one target is a list: standard input, or a file that exists and is not an address.
func (c *Command) listTarget() (string, bool) {
	if len(c.Targets) != 1 {
		return "", false
	}
	t := c.Targets[0]
	if t == stdin {
		return t, true
	}
	info, err := os.Stat(t)
	return t, err == nil && info.Mode().IsRegular() || !strings.Contains(t, "@")
}

// Validate is called by the parser.
func (c *Command) Validate() error {
	if c.Timeout <= 0 {
		return errors.New("--timeout must be above zero")
	}
	return c.Probing.Validate()
}

// checkAddressTargets refuses typed flags that are for lists, and lists among addresses.
func (c *Command) checkAddressTargets() error {
	if c.typed["details"] && !c.JSON {
		return fmt.Errorf("%w: --details of addresses are shown as JSON; give --json with it", console.ErrUsage)
	}
	for _, name := range []string{"output", "force", "column", "force-column", "no-header"} {
		if c.typed[name] {
			return fmt.Errorf("%w: --%s is for a list; give one file, or leave it out", console.ErrUsage, name)
		}
	}
	for _, t := range c.Targets {
		if info, err := os.Stat(t); t == stdin || err == nil && !info.IsDir() {
			return fmt.Errorf("%w: %s is a list; give it alone, or give addresses only", console.ErrUsage, t)
		}
	}
	return nil
}

// checkListTarget refuses a list that cannot be read, typed flags that are for addresses, and a result that cannot be
// written, before any work is done. A result is written over only if an interrupted run continues, or with --force.
func (c *Command) checkListTarget(file string) error {
	if err := checkListFile(file); err != nil {
		return fmt.Errorf("%w: %w; give a CSV file, - for standard input, or addresses", console.ErrUsage, err)
	}
	if c.typed["json"] {
		return fmt.Errorf("%w: --json is for addresses; leave it out, and for a list's results as JSON name a file that ends in .jsonl with --output", console.ErrUsage)
	}
	if c.Output == "" {
		return nil
	}
	if _, err := resultFormOf(c.Output); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Dir(c.Output)); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: --output %s: there is no such folder; make it first, or name another", console.ErrUsage,
			c.Output)
	}
	if sameFile(file, c.Output) {
		return fmt.Errorf("%w: --output %s is the list itself; name another file", console.ErrUsage, c.Output)
	}
	there, err := os.Lstat(c.Output)
	if err != nil {
		return nil // the error shows again when the file is written
	}
	if there.IsDir() {
		return fmt.Errorf("%w: --output %s is a folder; name a file", console.ErrUsage, c.Output)
	}
	if _, err := os.Stat(c.Output + progressFolder); err == nil {
		return nil // whether a run goes on shows when the folder is opened
	}
	return c.checkOverwrite()
}

// checkOverwrite refuses to write a new result over one that is there, unless --force is given.
func (c *Command) checkOverwrite() error {
	if _, err := os.Lstat(c.Output); err != nil || c.Force {
		return nil
	}
	return fmt.Errorf("%w: --output %s is there already, and no interrupted run of ours would go on into it; name another file, or write over it with --force", console.ErrUsage, c.Output)
}

// checkListFile refuses a name that is not a readable file.
func checkListFile(file string) error {
	if file == stdin {
		return nil
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not an address, as it has no \"@\", and there is no such file",
			console.Printable(file))
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder", console.Printable(file))
	}
	return nil
}

// maxConcurrent bounds how many addresses of one command line are verified at a time.
const maxConcurrent = 64

// verifyAddresses prints the answers in the order of the targets.
func (c *Command) verifyAddresses(ctx context.Context, con *console.IO, log *slog.Logger) error {
	n, err := app.OpenNode(&c.Probing, app.NodeConfig{FS: vfs.NewMem(), Dir: "node", Log: log, Warn: con.WarnLog(),
		Lists: c.ListChanges})
	if err != nil {
		return err
	}
	answers := make([]results.Single, len(c.Targets))
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		errs := make([]error, len(c.Targets))
		slots := make(chan struct{}, maxConcurrent)
		for i := range c.Targets {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				answers[i], errs[i] = c.verifyOne(ctx, n, c.Targets[i])
			}()
		}
		for range maxConcurrent {
			slots <- struct{}{}
		}
		return errors.Join(errs...)
	})
	if err = errors.Join(err, n.Close()); err != nil {
		return err
	}
	return errors.Join(c.printAnswers(con, answers), unansweredError(n))
}

func (c *Command) printAnswers(con *console.IO, answers []results.Single) error {
	if !c.JSON {
		return printTable(con, answers)
	}
	now := time.Now()
	for i := range answers {
		if _, err := con.Out.Write(append(answers[i].AppendJSON(nil, now), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// unansweredError is the error of a run whose resolvers answered no query: its verdicts say nothing about the
// addresses.
func unansweredError(n *app.Node) error {
	silent := n.Resolver.NeverAnswered()
	if len(silent) == 0 {
		return nil
	}
	return fmt.Errorf("no resolver of %v answered a query, so dns_error says nothing about these addresses: check the network, "+
		"or name another resolver with --dns (probity doctor tests them), and verify the addresses again",
		silent)
}

func (c *Command) verifyOne(ctx context.Context, n *app.Node, email string) (results.Single, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	began := time.Now()
	a, err := n.Coordinator.Single(ctx, coordinator.Request{Email: email, NoSMTP: c.NoSMTP, Details: true,
		MaxAge: time.Duration(c.MaxAge)})
	if err != nil {
		return results.Single{}, fmt.Errorf("%s: %w", email, err)
	}
	return results.Single{Email: email, Verdict: a.Verdict, Normalized: a.Address.Folded(), DidYouMean: a.Suggestion,
		Node: a.Node,
		Took: time.Since(began), Details: c.Details, Table: a.Table}, nil
}

func printTable(con *console.IO, answers []results.Single) error {
	now := time.Now()
	return console.PrintRows(con, false, "STATUS\tSCORE\tEMAIL\tREASON\tPROVIDER\tMX\tRULE", answers,
		func(a results.Single) []string {
			v := &a.Verdict
			reason := v.Reason.String()
			if a.DidYouMean != "" {
				reason = strings.TrimSpace(reason + " (did you mean " + console.Shorten(a.DidYouMean) + "?)")
			}
			host := v.Details.Host
			if host == "" && len(v.MX) > 0 {
				host = v.MX[0]
			}
			return []string{v.Status.String(), strconv.Itoa(int(engine.Score(v, now))), console.Shorten(a.Email),
				reason,
				v.ProviderName, console.Shorten(host), v.Rule}
		})
}
