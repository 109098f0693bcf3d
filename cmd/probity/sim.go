package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"syscall"

	"probity/bench/sim"
	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/internal/console"
	"probity/internal/foreign"
)

type simCmd struct {
	Serve     simServeCmd     `cmd:"" help:"Serve the simulated internet on loopback until interrupted."`
	Providers simProvidersCmd `cmd:"" help:"Print the provider override file that belongs to a speed-up."`
	List      simListCmd      `cmd:"" help:"Print a CSV list of that internet's addresses."`
	Truth     simTruthCmd     `cmd:"" help:"Print the allowed outcomes for each row."`
	Score     simScoreCmd     `cmd:"" help:"Score a result file against the simulator's truth; JSON."`
}

// seedFlag holds the flags of the commands that must agree on one simulated internet.
type seedFlag struct {
	Seed      uint64 `help:"Which internet: all sim commands must agree on it." default:"1"`
	Punishers bool   `help:"Add receivers that block a source during the run: all sim commands must agree."`
	Hostile   bool   `help:"Add receivers whose replies mislead; the list has addresses of theirs, and no others. All sim commands must agree."`
	Homes     int    `help:"Add so many company domains with host names of their own; the list has an address of each, and no others. All sim commands must agree." placeholder:"N"`
}

// maxCompanyDomains bounds the memory of the simulated internet.
const maxCompanyDomains = 1_000_000

// Validate is called by the parser.
func (f seedFlag) Validate() error {
	if f.Homes < 0 || f.Homes > maxCompanyDomains {
		return fmt.Errorf("--homes %d; give 0 to %d", f.Homes, maxCompanyDomains)
	}
	if f.Homes > 0 && f.Hostile {
		return errors.New("--homes and --hostile each have a list of their own: give one of them")
	}
	return nil
}

// world is the simulated internet of the flags.
func (f seedFlag) world() *world.World {
	return world.New(world.Config{Seed: f.Seed, Throttlers: f.Punishers, Hostile: f.Hostile, Homes: f.Homes})
}

type simServeCmd struct {
	seedFlag
	DNS      netip.AddrPort `name:"dns" help:"Where the name server listens." default:"127.0.0.1:5353"`
	SMTPPort int            `name:"smtp-port" help:"The port of all mail hosts." default:"2525"`
	HTTP     netip.AddrPort `name:"http" help:"Where GET /referee reports."`
	Latency  string         `help:"How long mail hosts take over each batch of replies: none, realistic, or a duration such as 50ms." default:"none"`
	Network  netip.Prefix   `help:"Take the mail hosts' addresses from this private prefix, in a network namespace that leads nowhere; default: loopback." placeholder:"CIDR"`
	Speedup  float64        `help:"Divides every waiting time, multiplies every hourly or per-minute limit; 1 is real time, 0 no limits." default:"1"`
}

// Run serves until ctx ends, then prints what the referee saw.
func (c simServeCmd) Run(ctx context.Context, con *console.IO) error {
	if err := checkSpeedup(c.Speedup); err != nil {
		return err
	}
	var network sim.Network = sim.Loopback{}
	if c.Network.IsValid() {
		within, err := sim.NewPrivateNetwork(c.Network)
		if err != nil {
			return fmt.Errorf("%w: --network: %w", console.ErrUsage, err)
		}
		network = within
	}
	server, err := sim.Start(ctx, world.Config{Seed: c.Seed, Speedup: c.Speedup, Latency: c.Latency,
		SMTPPort: c.SMTPPort, DNS: c.DNS, HTTP: c.HTTP,
		Network: c.Network, Throttlers: c.Punishers, Hostile: c.Hostile, Homes: c.Homes}, network)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: end the simulator that runs there, or choose other ports with --dns, --smtp-port and --http", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(con.Err, "simulated internet %d: DNS at %s, SMTP at port %d", c.Seed, server.DNS, server.SMTPPort)
	if server.HTTP.IsValid() {
		fmt.Fprintf(con.Err, ", referee at http://%s/referee", server.HTTP)
	}
	fmt.Fprintln(con.Err)
	err = server.Wait()
	out := json.NewEncoder(con.Err)
	out.SetIndent("", "  ")
	return errors.Join(err, out.Encode(server.Referee.Report()))
}

type simProvidersCmd struct {
	Speedup float64 `help:"The speed-up of the internet it is for." default:"1"`
}

// Run prints TOML.
func (c simProvidersCmd) Run(con *console.IO) error {
	if err := checkSpeedup(c.Speedup); err != nil {
		return err
	}
	return sim.WriteProviders(con.Out, c.Speedup)
}

// checkSpeedup refuses what is no --speedup.
func checkSpeedup(speedup float64) error {
	if speedup < 0 {
		return fmt.Errorf("%w: --speedup %g; give 0 for no limits, or a positive number", console.ErrUsage, speedup)
	}
	return nil
}

type simListCmd struct {
	seedFlag
	Rows     int    `help:"How many rows." default:"1000"`
	ListSeed uint64 `help:"Which list of that internet; by default the same number." default:"0"`
}

// Validate is called by the parser.
func (c simListCmd) Validate() error {
	if c.Rows < 1 {
		return errors.New("--rows must be above zero")
	}
	return c.seedFlag.Validate()
}

// Run prints CSV.
func (c simListCmd) Run(con *console.IO) error {
	return buffered(con.Out, func(w io.Writer) error {
		if c.Homes > 0 {
			return world.WriteHomes(w, c.world(), c.Rows)
		}
		if c.Hostile {
			return world.WriteHostile(w, c.world(), c.Rows, cmp.Or(c.ListSeed, c.Seed))
		}
		return world.WriteList(w, c.world(), c.Rows, cmp.Or(c.ListSeed, c.Seed))
	})
}

type simTruthCmd struct {
	seedFlag
	File string `arg:"" type:"existingfile" help:"A list made by sim list."`
}

// Run prints the list with two more columns.
func (c simTruthCmd) Run(con *console.IO) error {
	in, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer in.Close()
	return buffered(con.Out, func(w io.Writer) error { return score.WriteTruth(w, c.world(), in) })
}

type simScoreCmd struct {
	Truth        string            `required:"" type:"existingfile" help:"What sim truth printed."`
	Result       string            `required:"" type:"existingfile" help:"What verify wrote; with --status-column, what another verifier wrote."`
	StatusColumn string            `help:"The column with the other verifier's statuses, which are joined with the truth by address; reasons are not scored." placeholder:"NAME"`
	EmailColumn  string            `help:"The column with its addresses." default:"email" placeholder:"NAME"`
	Map          map[string]string `help:"What its words stand for: deliverable=VALID,undeliverable=INVALID." mapsep:"," placeholder:"WORD=STATUS"`
}

// Run prints the confusion matrix as JSON.
func (c simScoreCmd) Run(con *console.IO) error {
	var scores score.Scores
	var err error
	if c.StatusColumn == "" {
		scores, err = scoreFiles(c.Truth, c.Result)
	} else {
		scores, err = c.scoreForeign()
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(con.Out).Encode(scores)
}

// scoreForeign scores what another verifier wrote.
func (c simScoreCmd) scoreForeign() (score.Scores, error) {
	statuses, err := readForeign(c.Result, c.EmailColumn, c.StatusColumn, c.Map)
	if err != nil {
		return score.Scores{}, err
	}
	truth, err := os.Open(c.Truth)
	if err != nil {
		return score.Scores{}, err
	}
	defer truth.Close()
	return score.CompareStatuses(truth, func(email string) (string, bool) {
		status, ok := statuses[foreign.Key(email)]
		return status, ok
	})
}

// readForeign reads the statuses of another verifier's file.
func readForeign(path, email, status string, words map[string]string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	statuses, err := foreign.ReadStatuses(f, email, status, foreign.Words{Known: foreign.Statuses, Mapping: words}, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return statuses, nil
}

// scoreFiles compares a result file with the truth.
func scoreFiles(truthPath, resultPath string) (score.Scores, error) {
	truth, err := os.Open(truthPath)
	if err != nil {
		return score.Scores{}, err
	}
	defer truth.Close()
	result, err := os.Open(resultPath)
	if err != nil {
		return score.Scores{}, err
	}
	defer result.Close()
	return score.Compare(truth, result)
}

func buffered(w io.Writer, do func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, 1<<20)
	return errors.Join(do(b), b.Flush())
}
