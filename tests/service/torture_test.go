package service_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

// TestTorture makes faults of processes, disks, DNS and links at a server, then at a fleet, while its customer verifies
// one list after another. At the end nothing is lost, doubled or changed, the ledger is exact, no receiver's limit was
// exceeded, and nothing has leaked. Files of jobs are damaged too: such a job ends as the others, or reports that it is
// damaged. The faults follow from the seed. make torture is the long form.
func TestTorture(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("it torments real processes; run without -short")
	}
	k := newTortureRun(t)
	t.Run("serve", func(t *testing.T) { k.runStage(t, 1, k.duration*3/10, newServeTestbed) })
	t.Run("fleet", func(t *testing.T) { k.runStage(t, 2, k.duration*3/10, newFleetTestbed) })
	if k.long { // TestService has the short form
		t.Run("restore", func(t *testing.T) { k.restore(t, k.duration/5) })
	}
}

// testbed is the target of the faults: processes, and the relays between them and the simulated internet.
type testbed struct {
	t         *testing.T
	run       tortureRun
	stage     uint64
	dir       string
	data      string // of the server's store
	simulator internet
	world     *world.World
	client    *retryingCustomer

	supervisors []*supervisor // the first has the store
	dnsRelays   []*dnsRelay
	mailRelays  []*mailRelay
	streamLinks []*link
	gossipLinks []*link // in the order of streams
	faultKinds  []faultKind

	mu          sync.Mutex // guards tally
	faultCounts map[faultKind]int
}

const (
	tortureSettleTime    = 4 * time.Minute // for running work when the last fault is healed
	tortureRetrySchedule = "1s,3s,6s,12s"  // most faults are shorter than all retries
	nonFatalPart         = 5               // the last of so many parts of a stage has no fatal faults
)

func newTestbed(t *testing.T, k tortureRun, stage uint64) *testbed {
	p := &testbed{t: t, run: k, stage: stage, dir: t.TempDir(), faultCounts: map[faultKind]int{},
		world: world.New(world.Config{Seed: 1})}
	p.simulator = startInternet(context.Background(), t)
	p.data = p.path("data")
	var toml bytes.Buffer
	require.NoError(t, sim.WriteProviders(&toml, systemSpeedup))
	// What a run had leased of an hourly budget counts as used at its end, and there are many runs.
	text := regexp.MustCompile(`(?m)^refusals_per_hour = \d+$`).ReplaceAll(toml.Bytes(),
		[]byte("refusals_per_hour = 0"))
	require.NoError(t, os.WriteFile(p.path("providers.toml"), text, 0o600))
	for i, mayLie := range []bool{false, true} {
		p.dnsRelays = append(p.dnsRelays, newDNSRelay(t, sim.Loopback{}, new(net.Dialer).DialContext,
			hostPort(p.ip(3+i), 5300), p.simulator.dns, mayLie))
	}
	withStoppedStore(t, p.data, func(s *store.Store) {
		env := &serviceEnv{ctx: t.Context()}
		p.client = newRetryingCustomer(env.addCustomer(t, s, "stubborn@customer.example", tortureCredits, unlimited),
			"http://"+hostPort(p.ip(1), 8080))
		p.client.ctx = t.Context()
	})
	return p
}

func (p *testbed) path(name string) string { return filepath.Join(p.dir, name) }

// ip is an address of this process's own range of loopback, so that several tests may run at the same time.
func (p *testbed) ip(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 32+pid%160, pid/160%256, int(p.stage)*60+n)
}

// commonFlags are the flags that every process of a testbed has.
func (p *testbed) commonFlags() []string {
	return []string{"--dns", p.dnsRelays[0].packets.LocalAddr().String(), "--dns",
		p.dnsRelays[1].packets.LocalAddr().String(), "--smtp-port", p.simulator.smtp,
		"--allow-private-targets", "--providers", p.path("providers.toml"), "--retry-schedule", tortureRetrySchedule}
}

func (p *testbed) supervise(name, admin string, args []string) {
	k := supervise(p.t, p.dir, name, admin, args)
	p.supervisors = append(p.supervisors, k)
	p.t.Cleanup(k.stop)
}

// newServeTestbed is one process that does everything.
func newServeTestbed(t *testing.T, k tortureRun, stage uint64) *testbed {
	p := newTestbed(t, k, stage)
	p.mailRelays = []*mailRelay{newMailRelay(t, hostPort(p.ip(5), 1080))}
	admin := hostPort(p.ip(1), 9090)
	p.supervise("serve", admin, append([]string{"serve", "--data", p.data, "--listen", hostPort(p.ip(1), 8080),
		"--admin-listen", admin, "--disk-floor", "1",
		"--mail-from", "probe@prober.example", "--egress", p.ip(30) + "=mx.prober.example", "--socks5",
		p.mailRelays[0].listener.Addr().String()}, p.commonFlags()...))
	p.faultKinds = []faultKind{faultKill, faultBitFlip, faultFileLost, faultStop, faultStop, faultTerm, faultReload,
		faultLowMemory, faultNoDescriptors, faultDiskFail, faultDiskPersist, faultDiskFull,
		faultDiskSlow, faultDNS, faultDNS, faultDNS, faultDNS, faultSMTPHalfOpen, faultSMTPHalfOpen, faultSMTPReset,
		faultSMTPReset, faultSMTPRefused, faultSlowClients}
	return p
}

// runStage runs one stage.
func (k tortureRun) runStage(t *testing.T, stage uint64, lasts time.Duration,
	create func(*testing.T, tortureRun, uint64) *testbed) {
	p := create(t, k, stage)
	t.Cleanup(func() {
		for _, one := range p.supervisors {
			one.logFailures(t)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), lasts+tortureSettleTime)
	defer cancel()
	p.warmUp(ctx)
	idle := p.idleUse(ctx)
	faultCtx, stopFaults := context.WithTimeout(ctx, lasts)
	defer stopFaults()
	var concurrent sync.WaitGroup
	var singlesErr error
	concurrent.Go(func() { p.injectFaults(faultCtx, lasts) })
	concurrent.Go(func() { singlesErr = p.client.verifySingles(faultCtx, ctx, p.sampleAddresses()) })
	for first := true; first || faultCtx.Err() == nil; first = false {
		p.runJob(ctx)
	}
	concurrent.Wait()
	require.NoError(t, singlesErr)
	p.runJob(ctx) // and one more when all is well
	p.client.recheckResults(ctx, p.t)
	p.requireNoLeak(ctx, idle)
	for _, one := range slices.Backward(p.supervisors) { // probers first: the coordinator sees them leave
		one.stop()
		one.requireNoFailures(t)
	}
	p.client.requireExactLedger(t, p.data)
	harness.RequireWithinLimits(t, p.simulator.referee(ctx, t))
	p.logReport()
}

// warmUp waits until the testbed works, and lets it do everything once.
func (p *testbed) warmUp(ctx context.Context) {
	p.t.Helper()
	whole := p.run.rows
	p.run.rows = 300
	p.runJob(ctx)
	p.run.rows = whole
}

// runJob runs one list from its upload to its verdicts.
func (p *testbed) runJob(ctx context.Context) {
	p.t.Helper()
	list, truth := (&serviceEnv{world: p.world}).drawList(p.t, p.run.rows, p.run.seed+uint64(p.client.jobs))
	began := time.Now()
	last := logThrottle{began}
	j, result := p.client.verify(ctx, p.t, list, func(j bulkJob) {
		if last.allow() {
			p.t.Logf("%s: %s, %d of %d", p.supervisors[0].name, j.Status, j.Processed, j.TotalRows)
		}
	})
	p.t.Logf("%s: %d rows in %s", p.supervisors[0].name, j.TotalRows, time.Since(began).Round(time.Millisecond))
	p.client.requireCorrectJob(p.t, j, truth, result, p.run.rows)
}

// logThrottle limits how often the progress of a long job is logged.
type logThrottle struct{ last time.Time }

func (m *logThrottle) allow() bool {
	if time.Since(m.last) < 30*time.Second {
		return false
	}
	m.last = time.Now()
	return true
}

// injectFaults makes one fault after another, each of which heals by itself, until ctx ends; it returns when all are
// healed.
func (p *testbed) injectFaults(ctx context.Context, lasts time.Duration) {
	var healing sync.WaitGroup
	defer healing.Wait()
	kinds, soft := p.faultKinds, time.Now().Add(lasts-lasts/nonFatalPart)
	for n := 0; ; n++ {
		if time.Now().After(soft) {
			kinds = withoutFatal(p.faultKinds)
		}
		f := drawFault(p.run.seed, p.stage, n, kinds)
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.delay):
		}
		healing.Go(func() { p.injectFault(ctx, f) })
	}
}

// injectFault makes one fault. It counts the fault if it had a target.
func (p *testbed) injectFault(ctx context.Context, f fault) {
	at := p.supervisors[f.target%len(p.supervisors)]
	said, did := "", false
	switch f.kind {
	case faultKill:
		did = at.signal(syscall.SIGKILL)
	case faultTerm:
		did = at.signal(syscall.SIGTERM)
	case faultReload:
		did = at.signal(syscall.SIGHUP)
	case faultLowMemory:
		did = at.killWithLowMemory()
	case faultBitFlip, faultFileLost:
		at = p.supervisors[0]
		said, did = p.damageJobFile(at, f)
	case faultStop:
		did = at.signal(syscall.SIGSTOP)
		if did {
			sleepCtx(ctx, f.duration)
			at.signal(syscall.SIGCONT)
		}
	case faultNoDescriptors:
		var heal func()
		heal, did = at.exhaustDescriptors(int(f.random % 8))
		if did {
			sleepCtx(ctx, f.duration)
			heal()
		}
	case faultDiskFail, faultDiskPersist, faultDiskFull, faultDiskSlow:
		said, did = p.injectDiskFault(ctx, f)
	case faultSlowClients:
		did = p.openSlowClients(ctx, f)
	default:
		said, did = p.injectNetworkFault(ctx, f)
	}
	p.countFault(f, at.name, said, did)
}

func sleepCtx(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// injectDiskFault is for the process that has the store, or one that has only a cache.
func (p *testbed) injectDiskFault(ctx context.Context, f fault) (said string, did bool) {
	at := p.supervisors[f.target%len(p.supervisors)]
	word := map[faultKind]string{faultDiskFail: "fail ", faultDiskPersist: "failafter ", faultDiskFull: "full",
		faultDiskSlow: "slow "}[f.kind]
	switch f.kind {
	case faultDiskFail, faultDiskPersist:
		word += strconv.FormatUint(1+f.random%200, 10)
	case faultDiskSlow:
		word += (time.Duration(5+f.random%100) * time.Millisecond).String()
	}
	if harness.CommandDisk(at.diskSocket, word) != nil {
		return word, false
	}
	sleepCtx(ctx, f.duration)
	_ = harness.CommandDisk(at.diskSocket, "well") // the fault may have ended the process
	return word, true
}

// injectNetworkFault is for everything between the processes and the world.
func (p *testbed) injectNetworkFault(ctx context.Context, f fault) (said string, did bool) {
	mail := p.mailRelays[f.target%len(p.mailRelays)]
	switch f.kind {
	case faultDNS:
		at := p.dnsRelays[f.target%len(p.dnsRelays)]
		said = at.setMode(f.random)
		sleepCtx(ctx, f.duration)
		at.heal()
	case faultSMTPHalfOpen:
		n := mail.eachConn(6, f.random, (*relayedConn).goSilent)
		return fmt.Sprint(n, " connections"), n > 0
	case faultSMTPReset:
		n := mail.eachConn(2, f.random, (*relayedConn).reset)
		return fmt.Sprint(n, " connections"), n > 0
	case faultSMTPRefused:
		mail.refuse.Store(true)
		sleepCtx(ctx, f.duration)
		mail.refuse.Store(false)
	case faultStreamReset:
		p.streamLinks[f.target%len(p.streamLinks)].reset()
	case faultStreamCut, faultGossipCut, faultNodeCutOff:
		n := f.target % len(p.streamLinks)
		var cut []*link
		if f.kind != faultGossipCut {
			cut = append(cut, p.streamLinks[n])
		}
		if f.kind != faultStreamCut {
			cut = append(cut, p.gossipLinks[n])
		}
		for _, l := range cut {
			l.cut()
		}
		sleepCtx(ctx, f.duration)
		for _, l := range cut {
			l.heal()
		}
	}
	return said, true
}

func (p *testbed) countFault(f fault, at, said string, did bool) {
	if p.run.long || !did {
		p.t.Logf("%s %s %s: hit %v", at, f, said, did)
	}
	if !did {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faultCounts[f.kind]++
}

// resources is what an idle process uses.
type resources struct{ goroutines, sockets int }

// How much more an idle process may use at the end than at first: connections of other parts, and timers.
const (
	goroutineSlack = 40
	socketSlack    = 24
)

func (p *testbed) resourceUse() (all []resources) {
	for _, k := range p.supervisors {
		all = append(all, resources{k.goroutineCount(), k.socketCount()})
	}
	return all
}

// idleUse is the lowest use of the processes in the seconds after the first job, when its sessions have closed.
func (p *testbed) idleUse(ctx context.Context) []resources {
	least := p.resourceUse()
	for range 10 {
		sleepCtx(ctx, 300*time.Millisecond)
		for i, now := range p.resourceUse() {
			least[i] = resources{min(least[i].goroutines, now.goroutines), min(least[i].sockets, now.sockets)}
		}
	}
	return least
}

// requireNoLeak waits until every process uses what it used at first, or little more.
func (p *testbed) requireNoLeak(ctx context.Context, first []resources) {
	p.t.Helper()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		p.client.web.CloseIdleConnections()
		leaks := ""
		for i, now := range p.resourceUse() {
			if now.goroutines < 0 || now.goroutines > first[i].goroutines+goroutineSlack ||
				now.sockets > first[i].sockets+socketSlack {
				leaks += fmt.Sprintf("%s has %+v, at first %+v; ", p.supervisors[i].name, now, first[i])
			}
		}
		if leaks == "" {
			p.t.Logf("at first %+v, at last %+v (goroutines, sockets)", first, p.resourceUse())
			return
		}
		select {
		case <-ctx.Done():
			require.Fail(p.t, "leaks", leaks)
		case <-look.C:
		}
	}
}

// logReport logs the faults and their counts.
func (p *testbed) logReport() {
	p.mu.Lock()
	defer p.mu.Unlock()
	total, lives := 0, 0
	var words []string
	for _, what := range slices.Sorted(maps.Keys(p.faultCounts)) {
		words = append(words, fmt.Sprintf("%s %d", what, p.faultCounts[what]))
		total += p.faultCounts[what]
	}
	for _, k := range p.supervisors {
		lives += k.starts
	}
	p.t.Logf("%s: %d faults, %d lives of %d processes, %d jobs of %d rows, %d of them damaged, %d singles: %s",
		p.t.Name(), total, lives, len(p.supervisors),
		p.client.jobs, p.run.rows, p.client.damagedJobs, p.client.singlesAnswered.Load(), strings.Join(words, "; "))
	require.Positive(p.t, total)
}
