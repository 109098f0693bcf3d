package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/api/web"
	"probity/bench/sim"
	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/coordinator"
	"probity/coordinator/dispatch"
	"probity/internal/apiclient"
	"probity/internal/app"
	"probity/internal/buildinfo"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/progress"
	"probity/internal/wholefile"
	"probity/store"
)

type demoCmd struct {
	Rows   int    `help:"How long the sample list is." default:"20000"`
	Exit   bool   `help:"End when the list is verified; else everything stays up until interrupted."`
	Dir    string `help:"Where list, result and the server's data are written; what a demo left there is replaced." default:"probity-demo"`
	Seed   uint64 `help:"Seed of the simulated internet." default:"1"`
	Listen string `help:"Where the API listens." default:"127.0.0.1:8080"`
}

// demoCallbacks are the networks that callbacks of a demo may go to: receivers on this machine.
var demoCallbacks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// demoSpeedup makes a day of the simulated internet pass in 2.4 s.
const demoSpeedup = 36000

// Run starts a simulated internet and a server on loopback, verifies a list through the public API, and compares the
// result with the truth.
func (c demoCmd) Run(ctx context.Context, con *console.IO) error {
	internet, err := sim.Start(ctx, world.Config{Seed: c.Seed, Speedup: demoSpeedup, SMTPPort: world.AnyPort,
		DNS: netip.MustParseAddrPort("127.0.0.1:0")}, sim.Loopback{})
	if err != nil {
		return err
	}
	fmt.Fprintf(con.Err, "A simulated mail internet is up: %d mail hosts on loopback, DNS at %s.\n",
		len(internet.World.Hosts()), internet.DNS)
	return errors.Join(c.withServer(ctx, con, internet), internet.Close())
}

// withServer runs the demo on a server of its own.
func (c demoCmd) withServer(ctx context.Context, con *console.IO, internet *sim.Server) error {
	files, err := c.prepareFiles(internet.World)
	if err != nil {
		return err
	}
	serve := &app.ServeFlags{Data: files.data, Listen: c.Listen, AdminListen: "127.0.0.1:0", AdminEmail: demoAdmin,
		InitialCredits: demoCredits, PublishDocs: true,
		PublicPerDay: 1000, AllowPrivateCallbacks: demoCallbacks,
		RetainFlags: app.RetainFlags{RetainResults: app.Period(7 * 24 * time.Hour)}, DiskFloor: 1 << 28,
		Probing: nodeflags.Probing{DNS: []nodeflags.ResolverAddr{{AddrPort: internet.DNS}},
			SMTPPort: internet.SMTPPort, Egress: []nodeflags.Egress{"127.0.0.1=mx.prober.example"},
			MailFrom:  "probe@prober.example",
			Providers: files.overrides, AllowPrivateTargets: true}}
	s := app.NewService(app.Process{Build: buildinfo.Current(), Log: con.Log(), Disk: con.Files(),
		Registry: prometheus.NewRegistry()}, serve)
	if err := s.Open(); err != nil {
		return errors.Join(err, s.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx); stop() }()
	err = c.verifySample(ctx, con, s, internet, files)
	stop()
	return errors.Join(err, <-served, s.Close())
}

// The e-mail address and the credits of the demo's account.
const (
	demoAdmin   = "admin@demo.example"
	demoCredits = 1_000_000
)

func (c demoCmd) verifySample(ctx context.Context, con *console.IO, s *app.Service, internet *sim.Server,
	files demoFiles) error {
	password := store.RandomPassword()
	admin, _, err := s.Store().FirstAdmin(ctx, demoAdmin, password, demoCredits, time.Now())
	if err != nil {
		return err
	}
	key, _, err := s.Store().CreateKey(admin.ID, store.NewKey{Name: "demo"}, "demo", time.Now())
	if err != nil {
		return err
	}
	base := "http://" + s.Addr().String()
	fmt.Fprintf(con.Err, "A server is up at %s.\nUploading %s: %s.\n", base, files.list, console.Counted(c.Rows, "row"))
	client := &apiclient.Client{Base: base, Key: key, HTTP: &http.Client{}}
	job, err := verifyFile(ctx, client, con, files.list, files.result)
	if err != nil {
		return err
	}
	if err := progress.PrintSummary(con, job, files.result); err != nil {
		return err
	}
	if err := printProviders(con, files.result); err != nil {
		return err
	}
	if err := printDemoScore(con, internet, files); err != nil {
		return err
	}
	dashboard := web.Built()
	if c.Exit {
		fmt.Fprintf(con.Err, "\nThe demo ends here, and its server with it. To keep one up, with its dashboard:\n  %s\n", c.keepCommand(dashboard))
		return nil
	}
	fmt.Fprintln(con.Err, "\nEverything stays up until you interrupt it.")
	if dashboard {
		fmt.Fprintf(con.Err, "The dashboard is at %s: login %s, password %s.\n", base, demoAdmin, password)
	} else {
		fmt.Fprintf(con.Err, "This program has no dashboard. To get one: interrupt, then\n  %s\n",
			c.keepCommand(dashboard))
	}
	fmt.Fprintf(con.Err, `Look into one row, or go on with the API:
  curl -s %[1]s/v1/verify/single -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -d '{"email":"%[4]s","details":true}'
  curl -s %[1]s/v1/verify/bulk -H 'Authorization: Bearer %[2]s' -F file=@%[3]s
  curl -s %[1]s/v1/credits -H 'Authorization: Bearer %[2]s'
To be called back, add -F callback_url=URL to the list; here it may be on loopback. The API is described at %[1]s/docs.
`, base, key, files.list, internet.World.Addresses("postfix", 1)[0])
	<-ctx.Done()
	return nil
}

// keepCommand is the command line of a demo that keeps running and has a dashboard.
func (c demoCmd) keepCommand(dashboard bool) string {
	if !dashboard { // make build needs Node, and writes the program to bin
		return fmt.Sprintf("make build && ./bin/probity demo --rows %d", c.Rows)
	}
	return fmt.Sprintf("%s demo --rows %d", os.Args[0], c.Rows)
}

// demoFiles are the paths of the demo's files.
type demoFiles struct{ list, truth, result, overrides, data string }

// prepareFiles writes the list, its truth and the override file.
func (c demoCmd) prepareFiles(w *world.World) (f demoFiles, err error) {
	at := func(name string) string { return filepath.Join(c.Dir, name) }
	f = demoFiles{list: at("list.csv"), truth: at("truth.csv"), result: at("result.csv"),
		overrides: at("providers.toml"), data: at("data")}
	if err = c.claimFolder(); err != nil {
		return f, err
	}
	if err = errors.Join(os.RemoveAll(f.data), os.MkdirAll(f.data, 0o700)); err != nil {
		return f, err
	}
	err = errors.Join(
		wholefile.Replace(f.list, func(out io.Writer) error { return world.WriteList(out, w, c.Rows, c.Seed) }),
		wholefile.Replace(f.overrides, func(out io.Writer) error { return sim.WriteProviders(out, demoSpeedup) }))
	if err != nil {
		return f, err
	}
	in, err := os.Open(f.list)
	if err != nil {
		return f, err
	}
	defer in.Close()
	return f, wholefile.Replace(f.truth, func(out io.Writer) error { return score.WriteTruth(out, w, in) })
}

// demoMark is a file in the folder of a demo. The next demo may replace the files next to it.
const demoMark = ".probity-demo"

// claimFolder makes the demo's folder, or reuses that of an earlier demo. It refuses any other folder that is not
// empty.
func (c demoCmd) claimFolder() error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(c.Dir, demoMark)); err != nil && len(entries) > 0 {
		return fmt.Errorf("%w: --dir %s holds other things than a demo's; name a new folder", console.ErrUsage, c.Dir)
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.Dir, demoMark), nil, 0o644)
}

// Validate is called by the parser.
func (c *demoCmd) Validate() error {
	if c.Rows < 1 {
		return errors.New("--rows must be above zero")
	}
	return nil
}

// printDemoScore compares the result with the truth, and the prober's traffic with the receivers' limits.
func printDemoScore(con *console.IO, server *sim.Server, files demoFiles) error {
	s, err := scoreFiles(files.truth, files.result)
	if err != nil {
		return err
	}
	r := server.Referee.Report()
	fmt.Fprintf(con.Err, "\nCompared with the truth: %d rows, %d false VALID, %d false INVALID, %d unexpected UNKNOWN, %d changed cells.\n",
		s.Rows, s.FalseValid, s.FalseInvalid, s.UnexpectedUnknown, s.ChangedCells)
	fmt.Fprintf(con.Err, "The receivers' referee: %d connections, %d recipients, %d of them refused, %d excesses over limits.\n",
		r.Connections, r.Recipients, r.Refused, r.Excesses)
	if s.FalseValid+s.FalseInvalid+s.ChangedCells+s.MissingRows > 0 || r.Excesses > 0 {
		return errors.New("the demo's results are not as promised")
	}
	return nil
}

// printProviders counts the result's rows by provider and status.
func printProviders(con *console.IO, file string) error {
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
		name := console.OrDash(row[provider])
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
func printMatrix(con *console.IO, counts map[string]map[string]int64) error {
	w := tabwriter.NewWriter(con.Err, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nprovider\trows\tVALID\tRISKY\tINVALID\tUNKNOWN")
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b]["all"], counts[a]["all"]), strings.Compare(a, b))
	}) {
		n := counts[name]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", name, n["all"], count(n["VALID"]), count(n["RISKY"]),
			count(n["INVALID"]), count(n["UNKNOWN"]))
	}
	return w.Flush()
}

func count(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// verifyFile uploads a list, follows its job to the end, and downloads the result.
func verifyFile(ctx context.Context, c *apiclient.Client, con *console.IO, list, result string) (*store.Job, error) {
	job, err := c.Upload(ctx, list)
	if err != nil {
		return nil, err
	}
	bar := progress.New(con)
	for !store.JobState(job.Status).Finished() {
		bar.Show(coordinator.Snapshot{Job: recordOf(&job), Processed: job.Processed,
			Forecast: dispatch.Forecast{Rate: job.Rate, PendingRetry: job.PendingRetry, WaitingBudget: job.Waiting}})
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(progress.Interval):
		}
		if job, err = c.Job(ctx, job.ID); err != nil {
			return nil, err
		}
	}
	bar.End()
	ended := recordOf(&job)
	if ended.State != store.JobCompleted {
		return nil, fmt.Errorf("job %s: %s %s", job.ID, ended.State, ended.Error)
	}
	return &ended, c.Download(ctx, job.ID, result)
}

// recordOf converts a job for progress and summary.
func recordOf(v *apiclient.Job) store.Job {
	return store.Job{ID: v.ID, State: store.JobState(v.Status), Rows: v.TotalRows, Unique: v.Unique,
		Duplicates: v.Duplicates, Blank: v.Blank, Counts: v.Counts, Reasons: v.Reasons, Error: v.Error}
}
