package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/bench/baseline"
	"probity/bench/report"
	"probity/bench/sim"
	"probity/bench/sim/world"
)

// standIn makes this test binary speak the part of the command line that scenarios use, so that they can be tested
// without the packages behind it: the simulated internet is the real one, verify copies the truth.
const standIn = "BENCH_STAND_IN"

func TestMain(m *testing.M) {
	if os.Getenv(standIn) == "" {
		os.Exit(m.Run())
	}
	if err := runStandIn(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probity:", err)
		os.Exit(exitStatus(err))
	}
}

// exitStatus is the exit status for an error, as our binary has it.
func exitStatus(err error) int {
	var usage *kong.ParseError
	if errors.As(err, &usage) {
		return usageExit
	}
	return 1
}

type standInCLI struct {
	Sim struct {
		Serve struct {
			Seed    uint64
			Homes   int
			DNS     netip.AddrPort `name:"dns"`
			Port    int            `name:"smtp-port"`
			HTTP    netip.AddrPort `name:"http"`
			Latency string
			Speedup float64
		} `cmd:""`
	} `cmd:""`
	Verify struct {
		List      string `arg:""`
		Output    string `short:"o"`
		DNS       string `name:"dns"`
		Port      int    `name:"smtp-port"`
		Private   bool   `name:"allow-private-targets"`
		Providers string `type:"existingfile"`
		MailFrom  string
		Egress    []string `sep:"none"`
	} `cmd:""`
	Serve       standInServe       `cmd:""`
	Coordinator standInCoordinator `cmd:""`
	Prober      standInProber      `cmd:""`
	Certs       standInCerts       `cmd:""`
	User        struct {
		Add struct {
			Email   string `arg:""`
			Role    string
			Credits int
			Limit   []string
			Data    string
		} `cmd:""`
	} `cmd:""`
	Key struct {
		Create struct {
			User, Name, Data string
			Test             bool
		} `cmd:""`
	} `cmd:""`
	Bench struct {
		BaselineHTTP bool `name:"floor-http"`
	} `cmd:""`
}

func runStandIn(args []string) error {
	var c standInCLI
	parser, err := kong.New(&c)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch command, _, _ := strings.Cut(parsed.Command(), " "); command {
	case "verify":
		return copyTruth(c.Verify.List, c.Verify.Output)
	case "user":
		return nil
	case "key":
		fmt.Println("prb_live_bench")
		return nil
	case "serve":
		return c.Serve.run(ctx)
	case "certs":
		return nil
	case "coordinator":
		return c.Coordinator.run(ctx)
	case "prober":
		return c.Prober.run(ctx)
	case "bench":
		return baseline.ServeHTTP(ctx, os.Stderr)
	}
	s := c.Sim.Serve
	server, err := sim.Start(ctx, world.Config{Seed: s.Seed, Homes: s.Homes, DNS: s.DNS, SMTPPort: s.Port, HTTP: s.HTTP,
		Latency: s.Latency, Speedup: s.Speedup}, sim.Loopback{})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "pretend internet %d: DNS at %s, SMTP at port %d, referee at http://%s/referee\n", s.Seed,
		server.DNS, server.SMTPPort, server.HTTP)
	return server.Wait()
}

// copyTruth writes the first expected outcome of each row as its verdict. Lists that tests make are of seed 7.
func copyTruth(list, result string) error {
	w := world.New(world.Config{Seed: 7})
	in, err := os.Open(list)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := os.Create(result)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewWriter(f)
	if err != nil {
		return err
	}
	defer z.Close()
	rows, out := csv.NewReader(in), csv.NewWriter(z)
	rows.FieldsPerRecord = -1
	defer out.Flush()
	for header := true; ; header = false {
		row, err := rows.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		added := []string{"verify_status", "verify_reason"}
		if !header {
			added = verdictOf(w, row)
		}
		if err := out.Write(append(row, added...)); err != nil {
			return err
		}
	}
}

func verdictOf(w *world.World, row []string) []string {
	email := row[0]
	if len(row) > 3 {
		email = row[3]
	}
	if _, domain, _ := strings.Cut(email, "@"); strings.HasSuffix(domain, namesZone) {
		if strings.HasPrefix(domain, "n") {
			return []string{"INVALID", "null_mx"}
		}
		return []string{"INVALID", "domain_not_found"}
	}
	all := w.Truth(email)
	if len(all) == 0 {
		return []string{"", ""}
	}
	return []string{all[0].Status, all[0].Reason}
}

// standInOptions are those of a run against the stand-in.
func standInOptions(t *testing.T, rows int) Options {
	t.Setenv(standIn, "1")
	return Options{Binary: os.Args[0], Dir: t.TempDir(), Rows: rows, Latency: "none", Seed: 7,
		Dial: baseline.DialContext, Log: testLog{t}}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func TestScenariosRunAgainstTheStandIn(t *testing.T) {
	for _, name := range []string{"verify", "probe", "politeness", "dns", "bulk", "cache", "ingest", "assemble",
		"cluster"} {
		t.Run(name, func(t *testing.T) {
			selected, err := Select([]string{name})
			require.NoError(t, err)
			o := standInOptions(t, 2000)
			o.Resolve = plainResolver
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			rep := Run(ctx, selected[0], o)
			require.Empty(t, rep.Error)
			for _, m := range []string{"rows", "seconds", "rows_per_second", "ratio_to_floor"} {
				require.Contains(t, rep.Metrics, m)
				if name == "dns" && m == "ratio_to_floor" {
					continue // the stand-in queries no server
				}
				require.Positive(t, rep.Metrics[m].Value, m)
			}
			if name == "dns" {
				require.Positive(t, rep.Metrics["resolver_ratio_to_floor"].Value)
				require.Zero(t, rep.Metrics["domains_asked"].Value, "what others asked before is none of verify's")
			}
			require.Contains(t, rep.Metrics, "cpu_per_row")
			for _, b := range rep.Bars {
				if strings.HasPrefix(b.Name, "false_") || b.Name == "changed_cells" || b.Name == "missing_rows" {
					require.True(t, b.OK, "%+v", b)
				}
			}
			left, err := filepath.Glob(filepath.Join(o.Dir, "*"))
			require.NoError(t, err)
			require.Empty(t, left, "files of the run")
		})
	}
}

// TestGrowthRunsAgainstTheStandIn: every size of every axis is measured, and each but the first of an axis is compared
// with the one before.
func TestGrowthRunsAgainstTheStandIn(t *testing.T) {
	selected, err := Select([]string{"growth"})
	require.NoError(t, err)
	rep := Run(t.Context(), selected[0], standInOptions(t, 50))
	require.Empty(t, rep.Error)
	for _, a := range growthAxes(50) {
		for i, s := range a.sizes {
			name := a.name + "_" + s.name
			require.Positive(t, rep.Metrics[name+"_cpu_per_row"].Value, name)
			require.Positive(t, rep.Metrics[name+"_seconds"].Value, name)
			if i > 0 && a.name != "latency" {
				require.Contains(t, rep.Metrics, name+"_growth")
			}
		}
	}
	require.Positive(t, rep.Metrics["latency_200ms_growth_of_time"].Value)
	require.Len(t, rep.Bars, 8, "two for each axis but latency")
}

func TestSingleRunsAgainstTheStandIn(t *testing.T) {
	selected, err := Select([]string{"single"})
	require.NoError(t, err)
	o := standInOptions(t, 20_000)
	o.Load = 300 * time.Millisecond
	rep := Run(t.Context(), selected[0], o)
	require.Empty(t, rep.Error)
	for _, name := range []string{"fresh", "cached", "floor", "with_job_50", "with_job_500", "with_job_5000"} {
		require.Positive(t, rep.Metrics[name+"_per_second"].Value, name)
		require.Zero(t, rep.Metrics[name+"_errors"].Value, name)
	}
	require.Len(t, rep.Plots.Latency, 6)
}

func TestBatchRunsAgainstTheStandIn(t *testing.T) {
	selected, err := Select([]string{"batch"})
	require.NoError(t, err)
	o := standInOptions(t, 20_000)
	o.Load = 300 * time.Millisecond
	rep := Run(t.Context(), selected[0], o)
	require.Empty(t, rep.Error)
	for _, name := range []string{"fresh", "cached", "with_job"} {
		require.Positive(t, rep.Metrics[name+"_per_second"].Value, name)
		require.Zero(t, rep.Metrics[name+"_errors"].Value, name)
	}
	require.InDelta(t, batchRate, rep.Metrics["with_job_per_second"].Value, batchRate/4)
	require.Contains(t, rep.Metrics, "cached_address_cpu")
}

func TestMissingCommandIsReported(t *testing.T) {
	t.Setenv(standIn, "1")
	tr := &Trial{Options: Options{Binary: os.Args[0]}, Report: report.New("x", "", 7, report.Machine{})}
	_, err := tr.output(t.Context(), "coffee", "brew")
	require.ErrorIs(t, err, errNoCommand)
}
