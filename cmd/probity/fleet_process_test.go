package main

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

	"probity/bench/sim"
	"probity/coordinator/fleet"
	"probity/engine"
	"probity/store"
)

const (
	fleetRowsEnv  = "PROBITY_FLEET_ROWS" // of the list; the speed-up grows with it, so that the job takes as long
	fleetRows     = 20_000
	fleetPatience = 12 * time.Minute
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

// TestFleetOfProcesses runs a coordinator, four probers and the pretend internet as processes in namespaces of their own.
func TestFleetOfProcesses(t *testing.T) {
	inYard(t, fleetPatience, func(y *yard) {
		rows := fleetRowsWanted(t)
		c := y.open(rows, rows/40)
		began := time.Now()
		job := c.upload(y.at("list.csv"))
		c.follow(job, func(jobView) {})
		t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
		y.judge(c, job, rows)
		c.requireShown()
		sources := sourcesOf(y.referee())
		narrow := 0
		for id, seen := range sources {
			p := engine.DefaultTable().Provider(id)
			switch {
			case p == nil: // a server of nobody we know
			case p.ID == "google" || p.ID == "microsoft365" || p.ID == "outlook":
				require.Len(t, seen, 8, "%s: %v", p.ID, seen)
			case !p.Shared():
				require.Len(t, seen, 1, "%s: %v", p.ID, seen)
				narrow++
			}
		}
		require.Greater(t, narrow, 3, "%v", sources)
		require.Less(t, c.probers[0].end(), 25*time.Second)
		require.Less(t, c.hub.end(), 25*time.Second)
	})
}

// TestFleetSurvives kills and cuts off everything but the pretend internet while a job runs.
func TestFleetSurvives(t *testing.T) {
	inYard(t, fleetPatience+10*cutTime(t), func(y *yard) {
		rows := fleetRowsWanted(t)
		c := y.openForFaults(rows)
		began := time.Now()
		job := c.upload(y.at("list.csv"))
		y.rest(8 * time.Second)
		c.probers[0].kill()
		c.probers[1].kill()
		t.Log("killed two probers")
		var cuts sync.WaitGroup
		cuts.Go(func() { y.cutOff(3, cutBoth, false) })
		y.rest(20 * time.Second)
		c.probers[0] = y.prober(1)
		t.Log("started one of them again")
		cuts.Wait()
		c.hub.kill()
		y.rest(2 * time.Second)
		c.hub = y.hub()
		t.Log("killed the coordinator and started it again")
		y.until("three nodes take work", func() bool { return y.usable(3) })
		cuts.Go(func() { y.cutOff(4, cutStreams, false) })
		cuts.Go(func() { y.cutOff(1, cutGossip, true) })
		cuts.Wait()
		c.requireUnderWay(job)
		c.follow(job, func(jobView) {})
		t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
		y.judge(c, job, rows)
	})
}

// TestFleetCutsOneByOne has one fault after the other: nodes are cut off, each in one way, for as long as make fleet says, two are
// killed and come back, the coordinator is killed and started again.
func TestFleetCutsOneByOne(t *testing.T) {
	if os.Getenv(fleetCutEnv) == "" {
		t.Skip("it takes as long as three cuts: make fleet; TestFleetIsCut tries the same in virtual time")
	}
	inYard(t, fleetPatience+10*cutTime(t), func(y *yard) {
		rows := fleetRowsWanted(t)
		c := y.openForFaults(rows)
		began := time.Now()
		job := c.upload(y.at("list.csv"))
		y.rest(8 * time.Second)
		c.probers[0].kill()
		c.probers[1].kill()
		y.rest(20 * time.Second)
		c.probers[0] = y.prober(1)
		t.Log("killed two probers and started one of them again")
		y.until("three nodes take work", func() bool { return y.usable(3) })
		c.probers[1] = y.prober(2)
		y.until("all nodes take work", func() bool { return y.usable(4) })
		c.hub.kill()
		y.rest(2 * time.Second)
		c.hub = y.hub()
		t.Log("killed the coordinator and started it again")
		y.until("all nodes take work", func() bool { return y.usable(4) })
		y.cutOff(2, cutGossip, true)
		y.cutOff(3, cutStreams, false)
		y.until("all nodes take work", func() bool { return y.usable(4) })
		y.cutOff(4, cutBoth, false)
		c.requireUnderWay(job)
		c.follow(job, func(jobView) {})
		t.Logf("%d rows in %s", rows, time.Since(began).Round(time.Millisecond))
		y.judge(c, job, rows)
	})
}

// What is cut of a node's way to the cluster; its way to mail servers stays.
var (
	cutBoth    = []string{"to 10.77.0.0/16"}
	cutStreams = []string{"ipproto tcp sport 7947"}
	cutGossip  = []string{"ipproto udp sport 7946", "ipproto tcp sport 7946", "ipproto tcp dport 7946"}
)

// How long a node is cut off: so long that its share is kept, or, for make fleet, so long that it goes to others and comes back.
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

// cutOff cuts a node off for a time. If that takes its coordinator, it probes for ten seconds more, and not after.
func (y *yard) cutOff(n int, what []string, usable bool) {
	machine := fmt.Sprintf("p%d", n)
	for _, rule := range what {
		y.ip(machine, "rule add "+rule+" prio 1 blackhole")
	}
	y.rest(11 * time.Second)
	before := y.recipients(n)
	y.rest(cutTime(y.t) - 11*time.Second)
	if after := y.recipients(n); !usable && after != before {
		y.t.Errorf("node %d went on probing: %d, then %d recipients", n, before, after)
	}
	for _, node := range y.cluster().Nodes {
		if node.Name == machine && node.Usable != usable {
			y.t.Errorf("node %d while cut off: %+v", n, node)
		}
	}
	for _, rule := range what {
		y.ip(machine, "rule del "+rule+" prio 1 blackhole")
	}
	y.t.Logf("node %d was cut off for %s: %v", n, cutTime(y.t), what)
}

// recipients is how many a node has sent, by its own count: asked on its own machine, for it is cut off.
func (y *yard) recipients(n int) uint64 {
	out, err := y.inside(fmt.Sprintf("p%d", n), "cluster", "--json", "--admin", proberAddress(n)+":9090")
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

func (y *yard) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-y.ctx.Done():
	}
}

// yardCluster is a cluster at work, and its customer.
type yardCluster struct {
	y       *yard
	api     apiClient
	hub     *started
	probers []*started
}

const yardCredits = 10_000_000

// open starts everything and waits until all nodes take work.
func (y *yard) open(rows, speedup int) *yardCluster { return y.openWith(rows, speedup, 4) }

func (y *yard) openWith(rows, speedup, nodes int) *yardCluster {
	y.internet(speedup)
	produce(y.ctx, y.t, y.at("list.csv"), "sim", "list", "--rows", strconv.Itoa(rows))
	produce(y.ctx, y.t, y.at("truth.csv"), "sim", "truth", y.at("list.csv"))
	y.certs("p1", "p2", "p3", "p4")
	c := &yardCluster{y: y, api: apiClient{base: "http://" + hubAddress + ":8080", key: y.customer(), http: http.DefaultClient}}
	y.machine("hub", hubAddress)
	c.hub = y.hub()
	for n := 1; n <= nodes; n++ {
		y.machine(fmt.Sprintf("p%d", n), proberAddress(n), fmt.Sprintf("10.77.1.%d", n), fmt.Sprintf("10.77.2.%d", n))
		c.probers = append(c.probers, y.prober(n))
	}
	y.until("all nodes take work", func() bool { return y.usable(nodes) })
	return c
}

// customer makes an account in the store of a coordinator that does not run yet, and gives its key.
func (y *yard) customer() string {
	s, err := store.Open(vfs.Default, y.at("hub/state"))
	require.NoError(y.t, err)
	defer func() { require.NoError(y.t, s.Close()) }()
	u, _, err := s.AddUser(y.ctx, store.NewUser{Email: "yard@example.com", Credits: yardCredits, Role: store.Admin, Limits: store.Limits{SinglePerMinute: 100_000, BulkPerHour: 1000}}, "test", time.Now())
	require.NoError(y.t, err)
	key, _, err := s.CreateKey(u.ID, store.NewKey{Name: "first", Scopes: store.DefaultScopes | store.ScopeAdmin}, "test", time.Now())
	require.NoError(y.t, err)
	return key
}

// requireShown looks at the cluster in every way there is.
func (c *yardCluster) requireShown() {
	t, y := c.y.t, c.y
	admin := []string{"--admin", hubAddress + ":9090"}
	table, err := y.inside("hub", append([]string{"cluster"}, admin...)...)
	require.NoError(t, err)
	t.Logf("%s", table)
	body, err := c.api.call(y.ctx, http.MethodGet, "/v1/admin/cluster", "", nil)
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
		facts, err := y.inside("hub", append([]string{"explain", "route", domain}, flags...)...)
		require.NoError(t, err)
		require.Contains(t, string(facts), `"owner":"`+owner)
	}
	metrics, err := http.Get("http://" + hubAddress + ":9090/metrics")
	require.NoError(t, err)
	defer metrics.Body.Close()
	text, err := io.ReadAll(metrics.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `probity_node_up{node="p1"} 1`)
}

func (c *yardCluster) upload(list string) string {
	job, err := c.api.upload(c.y.ctx, list)
	require.NoError(c.y.t, err)
	return job.ID
}

// follow looks at a job until it is over; the coordinator may be away meanwhile.
func (c *yardCluster) follow(id string, look func(jobView)) {
	c.y.until("the job is over", func() bool {
		ctx, cancel := context.WithTimeout(c.y.ctx, 5*time.Second)
		defer cancel()
		job, err := c.api.job(ctx, id)
		if err == nil {
			look(job)
		}
		return err == nil && store.JobState(job.Status).Finished()
	})
}

// judge lets the truth, the referee and the ledger judge a job that is over.
func (y *yard) judge(c *yardCluster, id string, rows int) {
	t := y.t
	require.NoError(t, c.api.download(y.ctx, id, y.at("result.csv")))
	produce(y.ctx, t, y.at("score.json"), "sim", "score", "--truth", y.at("truth.csv"), "--result", y.at("result.csv"))
	text, err := os.ReadFile(y.at("score.json"))
	require.NoError(t, err)
	var s sim.Scores
	require.NoError(t, json.Unmarshal(text, &s))
	require.Equal(t, rows, s.Rows)
	requirePolite(t, y.referee())
	requireRoutes(t, y.referee())
	requireScore(t, s)
	if len(c.probers) == 4 {
		y.requireWide("google", "microsoft365", "outlook")
	}
	body, err := c.api.call(y.ctx, http.MethodGet, "/v1/verify/bulk/"+id, "", nil)
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
	require.Equal(t, job.Total-job.Blank, job.Counts["VALID"]+job.Counts["RISKY"]+job.Counts["INVALID"]+job.Counts["UNKNOWN"])
	y.requireLedger(c, id)
}

// requireLedger demands that what the job says it used is what the account has less, and nothing is reserved any more.
func (y *yard) requireLedger(c *yardCluster, id string) {
	var job struct {
		Used     int64 `json:"credits_used"`
		Unique   int64 `json:"unique_addresses"`
		Refunded int64 `json:"credits_refunded"`
	}
	var credits struct{ Balance, Reserved int64 }
	for path, v := range map[string]any{"/v1/verify/bulk/" + id: &job, "/v1/credits": &credits} {
		body, err := c.api.call(y.ctx, http.MethodGet, path, "", nil)
		require.NoError(y.t, err)
		require.NoError(y.t, json.NewDecoder(body).Decode(v))
		require.NoError(y.t, body.Close())
	}
	y.t.Logf("credits: %+v, account %+v", job, credits)
	require.EqualValues(y.t, yardCredits-job.Used, credits.Balance)
	require.Zero(y.t, credits.Reserved)
	require.Equal(y.t, job.Unique, job.Used+job.Refunded)
}
