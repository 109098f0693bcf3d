package fleet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"probity/coordinator"
	"probity/coordinator/cluster"
	"probity/coordinator/fleet"
	"probity/coordinator/ingest"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/memnet"
	"probity/prober/wire"
	"probity/prober/wire/stream"
	"probity/store"
)

// rowCostEnv asks for TestRowCostsTheSameInALargeFleet, which takes minutes; `make rowcost` sets it. fakeNodesEnv is
// how many nodes the process is to be, for the one that measures a coordinator.
const (
	rowCostEnv   = "PROBITY_ROW_COST"
	fakeNodesEnv = "PROBITY_FAKE_NODES"
)

const (
	costSources = 4         // of each node
	costRows    = 1_000_000 // of a list
	mostCost    = 1.3       // of a row among 1,000 nodes, in rows among 3
	costTurns   = 3         // of the two fleets: one list may cost a fifth more than the next
	costLists   = 3         // of a fleet in a turn, after the first
)

// TestRowCostsTheSameInALargeFleet runs lists over a fleet of 3 and of 1,000 nodes, with 4 sources each, that answer at
// once, in turns. It compares the CPU of the coordinator a row, from the upload to the result. The nodes are another
// process: what they need does not count, nor does what the streams need while there is no list. Each place of keys is
// weighed once in the life of a coordinator, which is what the first list is for.
func TestRowCostsTheSameInALargeFleet(t *testing.T) {
	if text := os.Getenv(fakeNodesEnv); text != "" {
		nodes, err := strconv.Atoi(text)
		require.NoError(t, err)
		serveFakeNodes(t, nodes)
		return
	}
	if os.Getenv(rowCostEnv) == "" {
		t.Skip("it takes minutes: make rowcost")
	}
	var few, many []time.Duration
	for range costTurns {
		few = append(few, rowCosts(t, 3)...)
		many = append(many, rowCosts(t, 1000)...)
	}
	slices.Sort(few)
	slices.Sort(many)
	t.Logf("of 3 nodes %v, of 1,000 %v", few, many)
	ratio := many[len(many)/2].Seconds() / few[len(few)/2].Seconds()
	t.Logf("a row of 4,000 sources needs %.2f times the CPU of a row of 12, medians of %d lists", ratio, len(few))
	require.LessOrEqual(t, ratio, mostCost)
}

// rowCosts are the CPU that a coordinator of so many nodes needs for a row, of each list but its first.
func rowCosts(t *testing.T, nodes int) (costs []time.Duration) {
	c, stop := startFleetOfFakes(t, nodes)
	defer stop()
	list := commonList()
	const idle = 5 * time.Second
	for round := range 1 + costLists {
		before := cpuTime()
		time.Sleep(idle)
		streams := float64(cpuTime()-before) / float64(idle)
		start := time.Now()
		before = cpuTime()
		job, err := c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(list)})
		require.NoError(t, err)
		job, err = c.Wait(t.Context(), job.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobCompleted, job.State, job.Error)
		took := time.Since(start)
		all := cpuTime() - before
		cost := (all - time.Duration(streams*float64(took))) / costRows
		t.Logf("%d nodes, list %d: %v of CPU a row in %v; %v with the streams, which take %.0f ms a second", nodes,
			round+1, cost,
			took.Round(time.Millisecond), all/costRows, 1000*streams)
		if round > 0 {
			costs = append(costs, cost)
		}
	}
	return costs
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// commonList is half of Gmail, a fifth of Google's customers, a tenth of Orange, and the rest of 30,000 domains with
// hosts of their own.
func commonList() string {
	var out strings.Builder
	out.WriteString("id,email\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range costRows {
		domain := fmt.Sprintf("d%d.example", rng.IntN(30_000))
		switch i % 10 {
		case 0, 1, 2, 3, 4:
			domain = "gmail.com"
		case 5, 6:
			domain = fmt.Sprintf("google%d.example", rng.IntN(30_000))
		case 7:
			domain = "orange.fr"
		}
		fmt.Fprintf(&out, "%d,annabella%d@%s\n", i, i, domain)
	}
	return out.String()
}

// fakeRoutes are the routes of commonList.
type fakeRoutes struct{ table *engine.Table }

func (r fakeRoutes) Route(_ context.Context, domain string) engine.Route {
	host := "mx." + domain
	switch {
	case domain == "gmail.com":
		host = "gmail-smtp-in.l.google.com"
	case strings.HasPrefix(domain, "google"):
		host = "aspmx.l.google.com"
	case domain == "orange.fr":
		host = "smtp-in.orange.fr"
	}
	return r.table.NewRoute([]engine.MX{{Host: host}})
}

func (r fakeRoutes) CachedRoute(string) (engine.Route, bool) { return engine.Route{}, false }

// startFleetOfFakes starts a coordinator, and its nodes in another process, and waits until all of them take work. The
// caller ends them.
func startFleetOfFakes(t *testing.T, nodes int) (c *coordinator.Coordinator, end func()) {
	table := engine.DefaultTable()
	silent := slog.New(slog.DiscardHandler)
	gossip, err := cluster.New(cluster.Config{Name: "hub", Role: cluster.RoleCoordinator, Version: "1", Label: "lab",
		Transport: newLAN(memnet.New()).host(coordinatorIP), Keys: [][]byte{[]byte("0123456789abcdef")}, Log: silent})
	require.NoError(t, err)
	dialer := net.Dialer{}
	f, err := fleet.New(fleet.Config{Cluster: gossip, Coordinator: wire.Coordinator{ID: "hub", Term: 1}, Version: "1",
		Table: func() *engine.Table { return table }, Log: silent,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		},
		Credentials: func(string) credentials.TransportCredentials { return insecure.NewCredentials() }})
	require.NoError(t, err)
	dir := t.TempDir()
	s, err := store.Open(vfs.Default, dir+"/state")
	require.NoError(t, err)
	known, err := lists.Default()
	require.NoError(t, err)
	c = coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: dir, Resolver: fakeRoutes{table}, Prober: f,
		Table: table, Lists: known})

	child := exec.Command(os.Args[0], "-test.run=^TestRowCostsTheSameInALargeFleet$")
	child.Env = append(os.Environ(), fmt.Sprint(fakeNodesEnv, "=", nodes))
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	out, outEnd, err := os.Pipe()
	require.NoError(t, err)
	child.ExtraFiles = []*os.File{outEnd}
	require.NoError(t, child.Start())
	require.NoError(t, outEnd.Close())
	for lines, n := bufio.NewScanner(out), 0; n < nodes && lines.Scan(); n++ {
		gossip.Restore(fmt.Sprint("p", n), lines.Text(), identitiesOf(n), time.Now())
	}

	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, run := range []func(context.Context) error{gossip.Run, f.Run, c.Run} {
		work.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	end = func() {
		stop()
		work.Wait()
		require.NoError(t, s.Close())
		require.NoError(t, stdin.Close())
		require.NoError(t, child.Wait())
	}
	for usable := 0; usable < nodes; {
		view, changed := gossip.Changed()
		usable = 0
		for i := range view.Nodes {
			if view.Nodes[i].Usable {
				usable++
			}
		}
		if usable < nodes {
			<-changed
		}
	}
	for wait := time.Until(f.Awaited()); wait > 0; wait = time.Until(f.Awaited()) {
		time.Sleep(wait)
	}
	return c, end
}

// identitiesOf are the sources of a node.
func identitiesOf(node int) (all []cluster.Identity) {
	for i := range costSources {
		all = append(all, cluster.Identity{Name: fmt.Sprintf("mx%d-%d.prober.example", node, i)})
	}
	return all
}

// answeringProber answers every row at once.
type answeringProber struct{}

func (answeringProber) Verify(_ context.Context, batch *wire.Batch, _ time.Duration, emit func(wire.Results)) error {
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "generic/no-mailbox", 0, time.Now())
	rows := make([]wire.Result, len(batch.Rows))
	for i := range rows {
		rows[i] = wire.Result{Row: batch.Rows[i].Number, Attempt: batch.Rows[i].Attempt,
			Egress: batch.EgressOf(&batch.Rows[i]), Verdict: v}
	}
	emit(wire.Results{Job: batch.Job, Chunk: batch.Chunk, Epoch: batch.Epoch, Rows: rows, Done: true})
	return nil
}

func (answeringProber) Single(context.Context, wire.SingleRequest) (wire.Answer, error) {
	return wire.Answer{}, nil
}

// serveFakeNodes is the nodes, until standard input ends. Their addresses go to the first file that the parent gave.
func serveFakeNodes(t *testing.T, nodes int) {
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	table := engine.DefaultTable()
	addresses := os.NewFile(3, "addresses")
	for n := range nodes {
		var identities []wire.Identity
		for _, id := range identitiesOf(n) {
			identities = append(identities, wire.Identity(id))
		}
		server, err := stream.NewServer(stream.ServerConfig{Node: fmt.Sprint("p", n), Version: "1",
			Identities: identities,
			Table:      table, Prober: answeringProber{}, Credentials: insecure.NewCredentials(),
			Window: func(string) int { return 8 * wire.MaxRows }})
		require.NoError(t, err)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		work.Go(func() {
			if err := server.Run(ctx, listener); err != nil {
				t.Error(err)
			}
		})
		_, err = fmt.Fprintln(addresses, listener.Addr())
		require.NoError(t, err)
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	stop()
	work.Wait()
}
