package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// noLatency is the value of --latency for none.
const noLatency = "none"

// errBars means that every contest ended and at least one bar was not met.
var errBars = errors.New("not every bar is met")

func main() {
	status, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		status = 1
	}
	os.Exit(status)
}

// start runs one of three: a peer's work (with each: its answers), the contests within the namespace, or this program
// again in a namespace.
func start() (int, error) {
	switch {
	case len(os.Args) == 4 && (os.Args[1] == "work" || os.Args[1] == "each"):
		workers, err := strconv.Atoi(os.Args[3])
		if err != nil {
			return 1, err
		}
		c := workCmd{peer: os.Args[2], workers: max(1, workers), each: os.Args[1] == "each"}
		return 0, c.run(os.Stdin, os.Stdout)
	case os.Getenv(inside) == "":
		return enter()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseOptions(os.Args[1:])
	if err != nil {
		return 2, err
	}
	return 0, o.run(ctx)
}

// options are the options of the command line.
type options struct {
	probity   string
	rows      int
	share     int
	seed      uint64
	latencies []string
	workers   []int
	peers     []Peer
	json      bool
}

func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	latencies := flags.String("latency", "none,50ms", "latencies of the pretend mail hosts, a contest each")
	workers := flags.String("workers", "64,256,512,1024",
		"goroutines that each peer is tried with, before it runs with the best")
	names := flags.String("peers", Rival+",checkmail,truemail-go", "which peers")
	flags.StringVar(&o.probity, "probity", "bin/probity", "Probity's binary")
	flags.IntVar(&o.rows, "rows", 2_000_000, "rows of the list: so many that its first and last seconds weigh little")
	flags.IntVar(&o.share, "peer-rows", 50_000, "how many addresses of it peers do, which take each by itself; 0 is all")
	flags.Uint64Var(&o.seed, "seed", 1, "which internet and which list")
	flags.BoolVar(&o.json, "json", false, "print JSON as probity bench does")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.probity, err = filepath.Abs(o.probity); err != nil {
		return o, err
	}
	o.latencies = strings.Split(*latencies, ",")
	for _, w := range strings.Split(*workers, ",") {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 {
			return o, fmt.Errorf("--workers %s: want positive numbers", *workers)
		}
		o.workers = append(o.workers, n)
	}
	for _, name := range strings.Split(*names, ",") {
		p, err := findPeer(name)
		if err != nil {
			return o, err
		}
		o.peers = append(o.peers, p)
	}
	return o, nil
}

// run runs the contests, one after another.
func (o options) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := furnish(dir); err != nil {
		return err
	}
	list := filepath.Join(dir, "list.csv")
	if err := o.writeList(ctx, list); err != nil {
		return err
	}
	addresses, _, err := readAddresses(list)
	if err != nil {
		return err
	}
	var results []result
	for _, latency := range o.latencies {
		c := contest{probity: o.probity, dir: dir, seed: o.seed, latency: latency, workers: o.workers, share: o.share,
			sample: max(2000, o.share/10), log: os.Stderr}
		r, err := c.run(ctx, list, addresses, o.peers)
		if err != nil {
			return err
		}
		results = append(results, r)
		if !o.json {
			if err := r.print(os.Stdout); err != nil {
				return err
			}
		}
	}
	if o.json {
		err = writeJSON(os.Stdout, results)
	}
	for _, r := range results {
		if !r.ok() {
			return errors.Join(err, errBars)
		}
	}
	return err
}

func (o options) writeList(ctx context.Context, path string) error {
	text, err := exec.CommandContext(ctx, o.probity, "sim", "list", "--seed", strconv.FormatUint(o.seed, 10), "--rows",
		strconv.Itoa(o.rows)).Output()
	if err != nil {
		return fmt.Errorf("%s sim list: %w", o.probity, err)
	}
	return os.WriteFile(path, text, 0o644)
}

// run lets every contestant verify the list.
func (c contest) run(ctx context.Context, list string, addresses []string, peers []Peer) (r result, err error) {
	r = result{latency: c.latency, seed: c.seed}
	ours, err := c.ours(ctx, list, len(addresses))
	if err != nil {
		return r, err
	}
	c.tell(ours)
	r.counts = append(r.counts, ours)
	for _, p := range peers {
		count, err := c.theirs(ctx, p, addresses)
		if err != nil {
			return r, err
		}
		c.tell(count)
		r.counts = append(r.counts, count)
		if p.Name == Rival {
			r.bars = bars(c.latency, ours, count)
		}
	}
	return r, nil
}

// machine describes this machine, as in the reports of probity bench.
func machine() map[string]any {
	return map[string]any{"os": runtime.GOOS, "arch": runtime.GOARCH, "cores": runtime.NumCPU(),
		"go": runtime.Version()}
}
