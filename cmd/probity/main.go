package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"probity/internal/admin"
	"probity/internal/certs"
	"probity/internal/console"
	"probity/internal/explain"
	"probity/internal/verify"
)

// cli is the whole command line. Flags win over PROBITY_* variables, those over the file of --config, that over
// defaults.
type cli struct {
	Config  kong.ConfigFlag `help:"TOML file with flag values; keys are flag names." placeholder:"FILE" env:"PROBITY_CONFIG"`
	Verbose bool            `help:"Log at debug level." short:"v"`
	Shown   versionFlag     `name:"version" help:"Print the version." env:"-"`

	Verify      verify.Command `cmd:"" help:"Verify addresses or a CSV file here, without a server."`
	Plan        planCmd        `cmd:"" help:"The least time that budgets allow for a list, and the receivers that take it."`
	Serve       serveCmd       `cmd:"" help:"API, coordinator and one prober in one process."`
	Coordinator coordinatorCmd `cmd:"" help:"API and coordinator, for probers on other machines."`
	Prober      proberCmd      `cmd:"" help:"A prober alone, for a coordinator on another machine."`
	Job         jobCmd         `cmd:"" help:"Start, recheck and explain jobs of a running server."`
	Cluster     clusterCmd     `cmd:"" help:"The nodes of a running cluster."`
	Health      healthCmd      `cmd:"" help:"Check the health of a running server or prober; exit status 0 when healthy."`
	Certs       certs.Command  `cmd:"" help:"Certificates and gossip keys of a cluster."`
	Demo        demoCmd        `cmd:"" help:"Watch a sample list being verified on a simulated mail internet."`
	Sim         simCmd         `cmd:"" help:"The simulated mail internet and its lists."`
	Doctor      doctorCmd      `cmd:"" help:"Audit egress identities, DNS, port 25, clock, file limits and store."`
	Providers   providersCmd   `cmd:"" help:"Check or show the provider table."`
	Bench       benchCmd       `cmd:"" help:"Measure throughput against baselines of the same run."`
	admin.Commands
	Explain    explain.Command `cmd:"" help:"Explain an address, a reply or a route."`
	Receipt    receiptCmd      `cmd:"" help:"Check a signed verdict."`
	Compare    compareCmd      `cmd:"" help:"Another verifier's results next to ours: where they disagree, by receiver, with our evidence."`
	Feedback   feedbackCmd     `cmd:"" help:"Report what became of messages to a running server."`
	MCP        mcpCmd          `cmd:"" name:"mcp" help:"Tools for assistants on standard input and output (Model Context Protocol): verify, explain, ask about jobs."`
	Version    versionCmd      `cmd:"" help:"Print the version."`
	Licences   licencesCmd     `cmd:"" help:"Print the licences of this program and of all that it contains."`
	Completion completionCmd   `cmd:"" help:"Print a completion script for bash, zsh or fish."`
	Man        manCmd          `cmd:"" help:"Write the manual pages, one for each command."`
	Help       helpCmd         `cmd:"" help:"Show the help of a command, as its --help does."`
}

func main() {
	nohup := signal.Ignored(syscall.SIGHUP)
	hangups := make(chan os.Signal, 1) // one is kept until the command is known, and until a server can reload
	signal.Notify(hangups, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a closed reader is a write error instead, so that everything is closed in order
	unsetEmptyVariables()
	con := &console.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Terminal: isTerminal(os.Stderr), Hangups: hangups,
		NoHangup: nohup, Environ: os.Environ()}
	os.Exit(run(ctx, os.Args[1:], con))
}

// reloadingCommands reload at SIGHUP, which ends the others in order.
var reloadingCommands = []string{"serve", "coordinator", "prober"}

// run parses args and runs the command they name. 0 is done, 1 failed, 2 wrong usage, which no arguments are too.
func run(ctx context.Context, args []string, con *console.IO) int {
	if len(args) == 0 {
		onlyErrors := *con
		onlyErrors.Out = con.Err
		run(ctx, []string{"help"}, &onlyErrors)
		return 2
	}
	var c cli
	config := &configFile{}
	exited := -1
	parser, err := kong.New(&c, append(flagParsers(), kong.Name("probity"),
		kong.Description("E-mail address verification that never lies and is polite, provably."),
		kong.DefaultEnvars("PROBITY"), kong.Configuration(config.load), kong.UsageOnError(),
		kong.Writers(con.Out, con.Err), kong.Exit(func(code int) { exited = code }),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(con))...)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	warnOfUnknownVariables(con, parser.Model)
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		printError(con, err, config)
		fmt.Fprintf(con.Err, "See %s --help.\n", commandNameOf(err))
		return 2
	}
	if name, twice := repeatedFlag(parsed); twice {
		fmt.Fprintf(con.Err, "probity: --%s is given twice; give it once\n", name)
		return 2
	}
	con.Verbose = c.Verbose
	if !slices.Contains(reloadingCommands, parsed.Command()) {
		var stop context.CancelFunc
		ctx, stop = endAtSignal(ctx, con)
		defer stop()
		parsed.BindTo(ctx, (*context.Context)(nil))
		con.In = console.InputUntil(ctx, con.In)
	}
	err = parsed.Run()
	if console.Interrupted(ctx, err) {
		err = console.ErrInterrupted
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, syscall.EPIPE):
		return 1 // the reader closed the pipe itself
	}
	printError(con, err, config)
	if errors.Is(err, console.ErrUsage) {
		return 2
	}
	return 1
}

// endAtSignal returns a context that ends at SIGHUP too, unless that was ignored when the process began. From its end
// on, SIGINT and SIGTERM end the process at once. A further SIGHUP does not: a terminal that closes sends several.
func endAtSignal(ctx context.Context, con *console.IO) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	hangups := con.Hangups
	if con.NoHangup {
		hangups = nil
		signal.Reset(syscall.SIGHUP) // which ignores it again
	}
	go func() {
		select {
		case <-hangups:
			stop()
		case <-ctx.Done():
		}
		signal.Reset(os.Interrupt, syscall.SIGTERM)
	}()
	return ctx, stop
}

// commandNameOf names the command whose arguments could not be parsed, so that its help can be suggested.
func commandNameOf(err error) string {
	var at *kong.ParseError
	if errors.As(err, &at) && at.Context != nil {
		if command := at.Context.Selected(); command != nil {
			return command.FullPath()
		}
	}
	return "probity"
}

// repeatedFlag finds a flag that takes one value and was given more than once.
func repeatedFlag(parsed *kong.Context) (string, bool) {
	seen := map[string]int{}
	for _, p := range parsed.Path {
		if p.Flag == nil || p.Flag.IsCumulative() || p.Flag.IsBool() {
			continue
		}
		seen[p.Flag.Name]++
		if seen[p.Flag.Name] > 1 {
			return p.Flag.Name, true
		}
	}
	return "", false
}

// printError tells the user of an error, and where the configuration file sets the flags that it names.
func printError(con *console.IO, err error, config *configFile) {
	text := errorText(err)
	fmt.Fprintf(con.Err, "probity: %s\n%s", text, config.places(text))
}

// isTerminal reports whether f is a character device, which a pipe and a file are not.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
