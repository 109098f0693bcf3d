package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
	"time"

	"probity/bench/sim"
)

type demoCmd struct {
	Rows int    `help:"How long the sample list is." default:"20000"`
	Exit bool   `help:"End when the list is verified; else the pretend internet stays up until interrupted."`
	Dir  string `help:"Where list and result are written." default:"probity-demo"`
	Seed uint64 `help:"Which pretend internet." default:"1"`
}

// The demo's internet runs a day in two seconds and a half, and answers take as long as they would there.
const demoSpeedup = 36000

// Run starts a pretend internet on loopback, verifies a list of its addresses, and holds the result against the truth.
func (c demoCmd) Run(ctx context.Context, con *console, root *cli) error {
	server, err := sim.Start(ctx, sim.Config{Seed: c.Seed, Speedup: demoSpeedup, SMTPPort: sim.AnyPort, DNS: netip.MustParseAddrPort("127.0.0.1:0")}, sim.Loopback{})
	if err != nil {
		return err
	}
	fmt.Fprintf(con.err, "A pretend mail internet is up: %d mail hosts on loopback, DNS at %s.\n", len(server.World.Hosts()), server.DNS)
	return errors.Join(c.play(ctx, con, root, server), server.Close())
}

func (c demoCmd) play(ctx context.Context, con *console, root *cli, server *sim.Server) error {
	list, truth, result, overrides, err := c.prepare(server.World)
	if err != nil {
		return err
	}
	fmt.Fprintf(con.err, "Verifying %s: %d rows.\n", list, c.Rows)
	v := verifyCmd{Targets: []string{list}, Output: result, MaxAge: time.Hour, probingFlags: probingFlags{
		DNS: []netip.AddrPort{server.DNS}, SMTPPort: uint16(server.World.Config().SMTPPort), Egress: []string{"127.0.0.1=mx.prober.example"},
		MailFrom: "probe@prober.example", Providers: overrides, AllowPrivateTargets: true}}
	if err := v.Run(ctx, con, root); err != nil {
		return err
	}
	if err := printProviders(con, result); err != nil {
		return err
	}
	if err := c.judge(con, server, truth, result); err != nil {
		return err
	}
	fmt.Fprintf(con.err, "\nLook into one row while the pretend internet is up (probity demo without --exit):\n  probity verify --json --details --dns %s --smtp-port %d --allow-private-targets \\\n    --providers %s --mail-from probe@prober.example --egress 127.0.0.1=mx.prober.example ADDRESS\n",
		server.DNS, server.World.Config().SMTPPort, overrides)
	if !c.Exit {
		<-ctx.Done()
	}
	return nil
}

// prepare writes the list, its truth and the override file, and names the result.
func (c demoCmd) prepare(w *sim.World) (list, truth, result, overrides string, err error) {
	at := func(name string) string { return filepath.Join(c.Dir, name) }
	list, truth, result, overrides = at("list.csv"), at("truth.csv"), at("result.csv"), at("providers.toml")
	if err = os.MkdirAll(c.Dir, 0o755); err != nil {
		return
	}
	if err = os.RemoveAll(result + progressFolder); err != nil {
		return
	}
	err = errors.Join(
		writeFile(list, func(f io.Writer) error { return sim.WriteList(f, w, c.Rows, c.Seed) }),
		writeFile(overrides, func(f io.Writer) error { return sim.WriteProviders(f, demoSpeedup) }))
	if err != nil {
		return
	}
	in, err := os.Open(list)
	if err != nil {
		return
	}
	defer in.Close()
	err = writeFile(truth, func(f io.Writer) error { return sim.WriteTruth(f, w, in) })
	return
}

// judge holds the result against the truth, and the prober against the receivers' limits.
func (c demoCmd) judge(con *console, server *sim.Server, truthFile, resultFile string) error {
	truth, err := os.Open(truthFile)
	if err != nil {
		return err
	}
	defer truth.Close()
	result, err := os.Open(resultFile)
	if err != nil {
		return err
	}
	defer result.Close()
	s, err := sim.Score(truth, result)
	if err != nil {
		return err
	}
	r := server.Referee.Report()
	fmt.Fprintf(con.err, "\nHeld against the truth: %d rows, %d false VALID, %d false INVALID, %d unexpected UNKNOWN, %d changed cells.\n",
		s.Rows, s.FalseValid, s.FalseInvalid, s.UnexpectedUnknown, s.ChangedCells)
	fmt.Fprintf(con.err, "The receivers' referee: %d connections, %d recipients, %d of them refused, %d excesses over anybody's limits.\n",
		r.Connections, r.Recipients, r.Refused, r.Excesses)
	if s.FalseValid+s.FalseInvalid+s.ChangedCells+s.MissingRows > 0 || r.Excesses > 0 {
		return errors.New("the demo did not hold what it promises")
	}
	return nil
}

// printProviders counts the result's rows by provider and status.
func printProviders(con *console, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	rows := csv.NewReader(f)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return err
	}
	status, provider := columnOf(head, "verify_status"), columnOf(head, "verify_smtp_provider")
	counts := map[string]map[string]int64{}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return printMatrix(con, counts)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if row[status] == "" {
			continue
		}
		name := orDash(row[provider])
		if counts[name] == nil {
			counts[name] = map[string]int64{}
		}
		counts[name][row[status]]++
		counts[name]["all"]++
	}
}

func columnOf(head []string, name string) int {
	for i, h := range head {
		if h == name {
			return i
		}
	}
	return -1
}

// printMatrix prints providers, the largest first, by status.
func printMatrix(con *console, counts map[string]map[string]int64) error {
	w := tabwriter.NewWriter(con.err, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nprovider\trows\tVALID\tRISKY\tINVALID\tUNKNOWN")
	for _, name := range largestFirst(counts) {
		n := counts[name]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", name, n["all"], count(n["VALID"]), count(n["RISKY"]), count(n["INVALID"]), count(n["UNKNOWN"]))
	}
	return w.Flush()
}

func count(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
