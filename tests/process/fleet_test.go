package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/internal/apiclient"
	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

const (
	fleetRowsEnv = "PROBITY_FLEET_ROWS" // of the list; the speed-up grows with it, so that the job takes as long
	fleetRows    = 20_000
	fleetTimeout = 12 * time.Minute
)

func fleetRowsWanted(t *testing.T) int {
	text := os.Getenv(fleetRowsEnv)
	if text == "" {
		return fleetRows
	}
	rows, err := strconv.Atoi(text)
	require.NoError(t, err, fleetRowsEnv)
	return rows
}

// TestFleetOfProcesses runs a coordinator, four probers and the simulated internet as processes in namespaces of their
// own.
func TestFleetOfProcesses(t *testing.T) {
	detector.Spare(t)
	inNetworkNamespaces(t, fleetTimeout, func(y *netnsTest) {
		rows := fleetRowsWanted(t)
		c := y.openCluster(rows, rows/40)
		began := time.Now()
		job := c.upload(y.path("list.csv"))
		c.follow(job, func(apiclient.Job) {})
		t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
		y.requireCorrectEnd(c, job, rows)
		c.requireVisible()
		sources := harness.SourcesOf(y.referee())
		for id, seen := range sources {
			p := engine.DefaultTable().Provider(id)
			switch {
			case p == nil: // a server of no known provider
			case p.ID == "google" || p.ID == "microsoft365" || p.ID == "outlook":
				require.Len(t, seen, 8, "%s: %v", p.ID, seen)
			case !p.Shared():
				require.Len(t, seen, 1, "%s: %v", p.ID, seen)
			}
		}
		require.Less(t, c.probers[0].terminate(), 25*time.Second)
		require.Less(t, c.coordinator.terminate(), 25*time.Second)
	})
}

// TestFleetSurvives kills and cuts off everything but the simulated internet while a job runs.
func TestFleetSurvives(t *testing.T) {
	if os.Getenv(fleetCutEnv) == "" {
		t.Skip("make fleet runs it: it takes minutes of waiting, and make test asks the same of other set-ups")
	}
	inNetworkNamespaces(t, fleetTimeout+10*cutTime(t), func(y *netnsTest) {
		rows := fleetRowsWanted(t)
		c := y.openForFaults(rows)
		began := time.Now()
		job := c.upload(y.path("list.csv"))
		y.sleep(8 * time.Second)
		c.probers[0].kill()
		c.probers[1].kill()
		t.Log("killed two probers")
		var cuts sync.WaitGroup
		cuts.Go(func() { y.cutNode(3, cutBoth, false) })
		y.sleep(20 * time.Second)
		c.probers[0] = y.startProber(1)
		t.Log("started one of them again")
		cuts.Wait()
		c.coordinator.kill()
		y.sleep(2 * time.Second)
		c.coordinator = y.startCoordinator()
		t.Log("killed the coordinator and started it again")
		y.waitFor("three nodes take work", func() bool { return y.hasUsable(3) })
		cuts.Go(func() { y.cutNode(4, cutStreams, false) })
		cuts.Go(func() { y.cutNode(1, cutGossip, true) })
		cuts.Wait()
		c.requireStillRunning(job)
		c.follow(job, func(apiclient.Job) {})
		t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
		y.requireCorrectEnd(c, job, rows)
	})
}

// TestFleetCutsOneByOne makes one fault after the other: nodes are cut off, each in one way, for the time set by make
// fleet; two are killed and come back; the coordinator is killed and started again.
func TestFleetCutsOneByOne(t *testing.T) {
	if os.Getenv(fleetCutEnv) == "" {
		t.Skip("it takes as long as three cuts: make fleet; TestFleetIsCut tries the same in virtual time")
	}
	inNetworkNamespaces(t, fleetTimeout+10*cutTime(t), func(y *netnsTest) {
		rows := fleetRowsWanted(t)
		c := y.openForFaults(rows)
		began := time.Now()
		job := c.upload(y.path("list.csv"))
		y.sleep(8 * time.Second)
		c.probers[0].kill()
		c.probers[1].kill()
		y.sleep(20 * time.Second)
		c.probers[0] = y.startProber(1)
		t.Log("killed two probers and started one of them again")
		y.waitFor("three nodes take work", func() bool { return y.hasUsable(3) })
		c.probers[1] = y.startProber(2)
		y.waitFor("all nodes take work", func() bool { return y.hasUsable(4) })
		c.coordinator.kill()
		y.sleep(2 * time.Second)
		c.coordinator = y.startCoordinator()
		t.Log("killed the coordinator and started it again")
		y.waitFor("all nodes take work", func() bool { return y.hasUsable(4) })
		y.cutNode(2, cutGossip, true)
		y.cutNode(3, cutStreams, false)
		y.waitFor("all nodes take work", func() bool { return y.hasUsable(4) })
		y.cutNode(4, cutBoth, false)
		c.requireStillRunning(job)
		c.follow(job, func(apiclient.Job) {})
		t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
		y.requireCorrectEnd(c, job, rows)
	})
}

// What is cut between a node and the cluster; its connection to mail servers stays.
var (
	cutBoth    = []string{"to 10.77.0.0/16"}
	cutStreams = []string{"ipproto tcp sport 7947"}
	cutGossip  = []string{"ipproto udp sport 7946", "ipproto tcp sport 7946", "ipproto tcp dport 7946"}
)

// How long a node is cut off: so short that it keeps its routes or, for make fleet, so long that others take them over
// meanwhile.
const (
	fleetCutEnv = "PROBITY_FLEET_CUT"
	fleetCut    = 30 * time.Second
)

func cutTime(t *testing.T) time.Duration {
	text := os.Getenv(fleetCutEnv)
	if text == "" {
		return fleetCut
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, fleetCutEnv)
	require.Greater(t, d, 15*time.Second, fleetCutEnv)
	return d
}

// cutNode cuts a node off for a time. If that takes its coordinator, it probes for ten seconds more, and not after.
func (y *netnsTest) cutNode(n int, what []string, usable bool) {
	machine := fmt.Sprintf("p%d", n)
	for _, rule := range what {
		y.runIP(machine, "rule add "+rule+" prio 1 blackhole")
	}
	y.sleep(11 * time.Second)
	before := y.recipients(n)
	y.sleep(cutTime(y.t) - 11*time.Second)
	if after := y.recipients(n); !usable && after != before {
		y.t.Errorf("node %d went on probing: %d, then %d recipients", n, before, after)
	}
	for _, node := range y.clusterReport().Nodes {
		if node.Name == machine && node.Usable != usable {
			y.t.Errorf("node %d while cut off: %+v", n, node)
		}
	}
	for _, rule := range what {
		y.runIP(machine, "rule del "+rule+" prio 1 blackhole")
	}
	y.t.Logf("node %d was cut off for %s: %v", n, cutTime(y.t), what)
}

// recipients returns how many recipients a node has sent, by its own count, read on its own machine, since it is cut
// off.
func (y *netnsTest) recipients(n int) uint64 {
	out, err := y.runInside(fmt.Sprintf("p%d", n), "cluster", "--json", "--admin", proberAddress(n)+":9090")
	if err != nil {
		y.t.Errorf("node %d: %v", n, err)
	}
	var r fleet.ClusterReport
	if err := json.Unmarshal(out, &r); err != nil || len(r.Nodes) != 1 {
		y.t.Errorf("node %d: %v: %s", n, err, out)
		return 0
	}
	return r.Nodes[0].Recipients
}

func (y *netnsTest) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-y.ctx.Done():
	}
}

// netnsCluster is a running cluster, and its customer.
type netnsCluster struct {
	net         *netnsTest
	api         apiclient.Client
	coordinator *testProcess
	probers     []*testProcess
}

const netnsCredits = 10_000_000

// openCluster starts everything and waits until all nodes accept work.
func (y *netnsTest) openCluster(rows, speedup int) *netnsCluster {
	return y.openClusterOf(rows, speedup, 4)
}

func (y *netnsTest) openClusterOf(rows, speedup, nodes int) *netnsCluster {
	y.startSimulator(speedup)
	harness.WriteOutput(y.ctx, y.t, y.path("list.csv"), "sim", "list", "--rows", strconv.Itoa(rows))
	harness.WriteOutput(y.ctx, y.t, y.path("truth.csv"), "sim", "truth", y.path("list.csv"))
	y.makeCerts("p1", "p2", "p3", "p4")
	c := &netnsCluster{net: y, api: apiclient.Client{Base: "http://" + coordinatorAddress + ":8080", Key: y.customer(),
		HTTP: http.DefaultClient}}
	y.addMachine("hub", coordinatorAddress)
	c.coordinator = y.startCoordinator()
	for n := 1; n <= nodes; n++ {
		y.addMachine(fmt.Sprintf("p%d", n), proberAddress(n), fmt.Sprintf("10.77.1.%d", n),
			fmt.Sprintf("10.77.2.%d", n))
		c.probers = append(c.probers, y.startProber(n))
	}
	y.waitFor("all nodes take work", func() bool { return y.hasUsable(nodes) })
	return c
}

// customer makes an account in the store of a coordinator before its start, and returns its key.
func (y *netnsTest) customer() string {
	s, err := store.Open(vfs.Default, y.path("hub/state"))
	require.NoError(y.t, err)
	defer func() { require.NoError(y.t, s.Close()) }()
	u, _, err := s.AddUser(y.ctx, store.NewUser{Email: "yard@example.com", Credits: netnsCredits, Role: store.Admin,
		Limits: store.Limits{SinglePerMinute: 100_000, BulkPerHour: 1000}}, "test", time.Now())
	require.NoError(y.t, err)
	key, _, err := s.CreateKey(u.ID, store.NewKey{Name: "first", Scopes: store.DefaultScopes | store.ScopeAdmin},
		"test", time.Now())
	require.NoError(y.t, err)
	return key
}

// requireVisible checks every view of the cluster.
func (c *netnsCluster) requireVisible() {
	t, y := c.net.t, c.net
	admin := []string{"--admin", coordinatorAddress + ":9090"}
	table, err := y.runInside("hub", append([]string{"cluster"}, admin...)...)
	require.NoError(t, err)
	t.Logf("%s", table)
	body, err := c.api.Call(y.ctx, http.MethodGet, "/v1/admin/cluster", "", nil)
	require.NoError(t, err)
	defer body.Close()
	var r fleet.ClusterReport
	require.NoError(t, json.NewDecoder(body).Decode(&r))
	require.Len(t, r.Nodes, 4)
	for _, n := range r.Nodes {
		require.Equal(t, "alive", n.State)
		require.Len(t, n.Identities, 2)
		require.Equal(t, "ok", n.Identities[0].State)
		require.Contains(t, string(table), n.Identities[1].Name)
	}
	flags := append(admin, "--dns", simDNS, "--json")
	for domain, owner := range map[string]string{"gmail.com": "each address has its own", "mailinator.com": "10.77."} {
		facts, err := y.runInside("hub", append([]string{"explain", "route", domain}, flags...)...)
		require.NoError(t, err)
		require.Contains(t, string(facts), `"owner":"`+owner)
	}
	metrics, err := http.Get("http://" + coordinatorAddress + ":9090/metrics")
	require.NoError(t, err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `probity_node_up{node="p1"} 1`)
}

func (c *netnsCluster) upload(list string) string {
	job, err := c.api.Upload(c.net.ctx, list)
	require.NoError(c.net.t, err)
	return job.ID
}

// follow polls a job until it has ended; the coordinator may be down meanwhile.
func (c *netnsCluster) follow(id string, look func(apiclient.Job)) {
	c.net.waitFor("the job is over", func() bool {
		ctx, cancel := context.WithTimeout(c.net.ctx, 5*time.Second)
		defer cancel()
		job, err := c.api.Job(ctx, id)
		if err == nil {
			look(job)
		}
		return err == nil && store.JobState(job.Status).Finished()
	})
}

// requireCorrectEnd compares an ended job with the truth, the receivers' limits and the ledger.
func (y *netnsTest) requireCorrectEnd(c *netnsCluster, id string, rows int) {
	t := y.t
	require.NoError(t, c.api.Download(y.ctx, id, y.path("result.csv")))
	harness.WriteOutput(y.ctx, t, y.path("score.json"), "sim", "score", "--truth", y.path("truth.csv"), "--result",
		y.path("result.csv"))
	text, err := os.ReadFile(y.path("score.json"))
	require.NoError(t, err)
	var s score.Scores
	require.NoError(t, json.Unmarshal(text, &s))
	require.Equal(t, rows, s.Rows)
	harness.RequireWithinLimits(t, y.referee())
	harness.RequireRoutes(t, y.referee())
	harness.RequireScore(t, s)
	if len(c.probers) == 4 {
		y.requireWide("google", "microsoft365", "outlook")
	}
	body, err := c.api.Call(y.ctx, http.MethodGet, "/v1/verify/bulk/"+id, "", nil)
	require.NoError(t, err)
	defer body.Close()
	var job struct {
		Status string
		Total  int64            `json:"total_rows"`
		Blank  int64            `json:"blank_rows"`
		Counts map[string]int64 `json:"counts"`
	}
	require.NoError(t, json.NewDecoder(body).Decode(&job))
	require.Equal(t, "completed", job.Status)
	require.Equal(t, job.Total-job.Blank, job.Counts["VALID"]+job.Counts["RISKY"]+job.Counts["INVALID"]+
		job.Counts["UNKNOWN"])
	y.requireLedger(c, id)
}

// requireLedger requires that the account was charged what the job reports, and that nothing is still reserved.
func (y *netnsTest) requireLedger(c *netnsCluster, id string) {
	var job struct {
		Used     int64 `json:"credits_used"`
		Unique   int64 `json:"unique_addresses"`
		Refunded int64 `json:"credits_refunded"`
	}
	var credits struct{ Balance, Reserved int64 }
	for path, v := range map[string]any{"/v1/verify/bulk/" + id: &job, "/v1/credits": &credits} {
		body, err := c.api.Call(y.ctx, http.MethodGet, path, "", nil)
		require.NoError(y.t, err)
		require.NoError(y.t, json.NewDecoder(body).Decode(v))
		require.NoError(y.t, body.Close())
	}
	y.t.Logf("credits: %+v, account %+v", job, credits)
	require.EqualValues(y.t, netnsCredits-job.Used, credits.Balance)
	require.Zero(y.t, credits.Reserved)
	require.Equal(y.t, job.Unique, job.Used+job.Refunded)
}
