package main

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
	"probity/store"
)

// TestTorture lets everything happen to a server, then to a fleet, that can happen to processes, disks, names and cables, while
// its customer has one list after another verified. At the end nothing is lost, doubled or changed, the ledger is exact, no
// receiver saw more than it tolerates, and nothing has leaked. Files of jobs are damaged too: such a job ends as the others, or says
// that it is damaged. The faults follow from the seed. make torture is the long form.
func TestTorture(t *testing.T) {
	if testing.Short() {
		t.Skip("it torments real processes; run without -short")
	}
	k := newTorment(t)
	t.Run("serve", func(t *testing.T) { k.torment(t, 1, k.time*3/10, newServePlant) })
	t.Run("fleet", func(t *testing.T) { k.torment(t, 2, k.time*3/10, newFleetPlant) })
	if k.long { // TestService has the short form
		t.Run("restore", func(t *testing.T) { k.restore(t, k.time/5) })
	}
}

// plant is what is tormented: processes, and the relays between them and the world.
type plant struct {
	t      *testing.T
	k      torment
	stage  uint64
	dir    string
	data   string // of the server's store
	world  internet
	seen   *sim.World
	client *stubborn

	keepers []*keeper // the first has the store
	names   []*nameRelay
	mails   []*mailRelay
	streams []*link
	gossip  []*link // in the order of streams
	kinds   []blow

	mu    sync.Mutex // guards tally
	tally map[blow]int
}

const (
	tortureSettle = 4 * time.Minute // for what is under way when the last fault is healed
	outlasting    = "1s,3s,6s,12s"  // waits before a row is asked again, which most faults do not outlast
	gentlePart    = 5               // the last one in so many of a stage has no deadly faults
)

func newPlant(t *testing.T, k torment, stage uint64) *plant {
	p := &plant{t: t, k: k, stage: stage, dir: t.TempDir(), tally: map[blow]int{}, seen: sim.NewWorld(sim.Config{Seed: 1})}
	p.world = startInternet(context.Background(), t)
	p.data = p.at("data")
	var toml bytes.Buffer
	require.NoError(t, sim.WriteProviders(&toml, systemSpeedup))
	// A life counts what it had leased of an hour's refusals as used when it ends: the lives of a torture are many.
	text := regexp.MustCompile(`(?m)^refusals_per_hour = \d+$`).ReplaceAll(toml.Bytes(), []byte("refusals_per_hour = 0"))
	require.NoError(t, os.WriteFile(p.at("providers.toml"), text, 0o600))
	for i, liar := range []bool{false, true} {
		p.names = append(p.names, newNameRelay(t, sim.Loopback{}, new(net.Dialer).DialContext, hostPort(p.ip(3+i), 5300), p.world.dns, liar))
	}
	atRest(t, p.data, func(s *store.Store) {
		hirer := &play{ctx: t.Context()}
		p.client = newStubborn(hirer.hire(t, s, "stubborn@customer.example", tormentGrant, wide), "http://"+hostPort(p.ip(1), 8080))
		p.client.ctx = t.Context()
	})
	return p
}

func (p *plant) at(name string) string { return filepath.Join(p.dir, name) }

// ip is an address of this process's own range of loopback, so that tortures may run side by side.
func (p *plant) ip(n int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 32+pid%160, pid/160%256, int(p.stage)*60+n)
}

// common are the flags that every process of a plant has.
func (p *plant) common() []string {
	return []string{"--dns", p.names[0].packets.LocalAddr().String(), "--dns", p.names[1].packets.LocalAddr().String(), "--smtp-port", p.world.smtp,
		"--allow-private-targets", "--providers", p.at("providers.toml"), "--retry-schedule", outlasting}
}

func (p *plant) keep(name, admin string, args []string) {
	k := keep(p.t, p.dir, name, admin, args)
	p.keepers = append(p.keepers, k)
	p.t.Cleanup(k.end)
}

// newServePlant is one process that does everything.
func newServePlant(t *testing.T, k torment, stage uint64) *plant {
	p := newPlant(t, k, stage)
	p.mails = []*mailRelay{newMailRelay(t, hostPort(p.ip(5), 1080))}
	admin := hostPort(p.ip(1), 9090)
	p.keep("serve", admin, append([]string{"serve", "--data", p.data, "--listen", hostPort(p.ip(1), 8080), "--admin-listen", admin, "--disk-floor", "1",
		"--mail-from", "probe@prober.example", "--egress", p.ip(30) + "=mx.prober.example", "--socks5", p.mails[0].ears.Addr().String()}, p.common()...))
	p.kinds = []blow{blowKill, blowFlip, blowLose, blowStop, blowStop, blowTerm, blowReload, blowMemory, blowFiles, blowDiskFail, blowDiskPersist, blowDiskFull,
		blowDiskSlow, blowNames, blowNames, blowNames, blowNames, blowHalfOpen, blowHalfOpen, blowReset, blowReset, blowRefuse, blowLoris}
	return p
}

// torment runs one stage.
func (k torment) torment(t *testing.T, stage uint64, lasts time.Duration, grow func(*testing.T, torment, uint64) *plant) {
	p := grow(t, k, stage)
	ctx, cancel := context.WithTimeout(t.Context(), lasts+tortureSettle)
	defer cancel()
	p.warmUp(ctx)
	quiet := p.settled(ctx)
	hitting, calm := context.WithTimeout(ctx, lasts)
	defer calm()
	var beside sync.WaitGroup
	var pestered error
	beside.Go(func() { p.batter(hitting, lasts) })
	beside.Go(func() { pestered = p.client.pester(hitting, ctx, p.addresses()) })
	for first := true; first || hitting.Err() == nil; first = false {
		p.job(ctx)
	}
	beside.Wait()
	require.NoError(t, pestered)
	p.job(ctx) // and one more when all is well
	p.client.review(ctx, p.t)
	p.requireNoLeak(ctx, quiet)
	for _, one := range slices.Backward(p.keepers) { // probers first: the coordinator sees them go
		one.end()
		one.requireCalm(t)
	}
	p.client.requireExactLedger(t, p.data)
	requirePolite(t, p.world.referee(ctx, t))
	p.report()
}

// warmUp waits until the plant works, and has it do everything once.
func (p *plant) warmUp(ctx context.Context) {
	p.t.Helper()
	whole := p.k.rows
	p.k.rows = 300
	p.job(ctx)
	p.k.rows = whole
}

// job takes one list from its upload to its verdicts.
func (p *plant) job(ctx context.Context) {
	p.t.Helper()
	list, truth := (&play{seen: p.seen}).drawn(p.t, p.k.rows, p.k.seed+uint64(p.client.jobs))
	began := time.Now()
	last := seldom{began}
	j, result := p.client.verify(ctx, p.t, list, func(j bulkJob) {
		if last.due() {
			p.t.Logf("%s: %s, %d of %d", p.keepers[0].name, j.Status, j.Processed, j.TotalRows)
		}
	})
	p.t.Logf("%s: %d rows in %s", p.keepers[0].name, j.TotalRows, time.Since(began).Round(time.Millisecond))
	p.client.judge(p.t, j, truth, result, p.k.rows)
}

// seldom says when it is time to tell how a long job fares.
type seldom struct{ told time.Time }

func (m *seldom) due() bool {
	if time.Since(m.told) < 30*time.Second {
		return false
	}
	m.told = time.Now()
	return true
}

// batter does one fault after another, each of which heals by itself, until ctx ends; it returns when all are healed.
func (p *plant) batter(ctx context.Context, lasts time.Duration) {
	var healing sync.WaitGroup
	defer healing.Wait()
	kinds, soft := p.kinds, time.Now().Add(lasts-lasts/gentlePart)
	for n := 0; ; n++ {
		if time.Now().After(soft) {
			kinds = gentle(p.kinds)
		}
		f := drawFault(p.k.seed, p.stage, n, kinds)
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.rest):
		}
		healing.Go(func() { p.hit(ctx, f) })
	}
}

// hit does one fault. It counts when there was something to hit.
func (p *plant) hit(ctx context.Context, f fault) {
	at := p.keepers[f.target%len(p.keepers)]
	said, did := "", false
	switch f.what {
	case blowKill:
		did = at.signal(syscall.SIGKILL)
	case blowTerm:
		did = at.signal(syscall.SIGTERM)
	case blowReload:
		did = at.signal(syscall.SIGHUP)
	case blowMemory:
		did = at.starve()
	case blowFlip, blowLose:
		at = p.keepers[0]
		said, did = p.harm(at, f)
	case blowStop:
		if did = at.signal(syscall.SIGSTOP); did {
			rest(ctx, f.lasts)
			at.signal(syscall.SIGCONT)
		}
	case blowFiles:
		var heal func()
		if heal, did = at.noFiles(int(f.chance % 8)); did {
			rest(ctx, f.lasts)
			heal()
		}
	case blowDiskFail, blowDiskPersist, blowDiskFull, blowDiskSlow:
		said, did = p.hurtDisk(ctx, f)
	case blowLoris:
		did = p.dally(ctx, f)
	default:
		said, did = p.hurtNetwork(ctx, f)
	}
	p.count(f, at.name, said, did)
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hurtDisk is for the process that has the store, or one that has only a cache.
func (p *plant) hurtDisk(ctx context.Context, f fault) (said string, did bool) {
	at := p.keepers[f.target%len(p.keepers)]
	word := map[blow]string{blowDiskFail: "fail ", blowDiskPersist: "failafter ", blowDiskFull: "full", blowDiskSlow: "slow "}[f.what]
	switch f.what {
	case blowDiskFail, blowDiskPersist:
		word += strconv.FormatUint(1+f.chance%200, 10)
	case blowDiskSlow:
		word += (time.Duration(5+f.chance%100) * time.Millisecond).String()
	}
	if tell(at.socket, word) != nil {
		return word, false
	}
	rest(ctx, f.lasts)
	_ = tell(at.socket, "well") // it may have ended of it
	return word, true
}

// hurtNetwork is for everything between the processes and the world.
func (p *plant) hurtNetwork(ctx context.Context, f fault) (said string, did bool) {
	mail := p.mails[f.target%len(p.mails)]
	switch f.what {
	case blowNames:
		at := p.names[f.target%len(p.names)]
		said = at.become(f.chance)
		rest(ctx, f.lasts)
		at.heal()
	case blowHalfOpen:
		n := mail.each(6, f.chance, (*mailCall).die)
		return fmt.Sprint(n, " connections"), n > 0
	case blowReset:
		n := mail.each(2, f.chance, (*mailCall).reset)
		return fmt.Sprint(n, " connections"), n > 0
	case blowRefuse:
		mail.refuse.Store(true)
		rest(ctx, f.lasts)
		mail.refuse.Store(false)
	case blowBreak:
		p.streams[f.target%len(p.streams)].reset()
	case blowCut, blowGossip, blowIsland:
		n := f.target % len(p.streams)
		var cut []*link
		if f.what != blowGossip {
			cut = append(cut, p.streams[n])
		}
		if f.what != blowCut {
			cut = append(cut, p.gossip[n])
		}
		for _, l := range cut {
			l.cut()
		}
		rest(ctx, f.lasts)
		for _, l := range cut {
			l.heal()
		}
	}
	return said, true
}

func (p *plant) count(f fault, at, said string, did bool) {
	if p.k.long || !did {
		p.t.Logf("%s %s %s: hit %v", at, f, said, did)
	}
	if !did {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tally[f.what]++
}

// quiet is what a process has when it has nothing to do.
type quiet struct{ goroutines, sockets int }

// What a process may have more than at first, when nothing is to be done any more: connections of the other parts, and timers.
const (
	moreGoroutines = 40
	moreSockets    = 24
)

func (p *plant) measure() (all []quiet) {
	for _, k := range p.keepers {
		all = append(all, quiet{k.goroutines(), k.sockets()})
	}
	return all
}

// settled is the least that the processes have in the seconds after the first job, when its sessions have taken their leave.
func (p *plant) settled(ctx context.Context) []quiet {
	least := p.measure()
	for range 10 {
		rest(ctx, 300*time.Millisecond)
		for i, now := range p.measure() {
			least[i] = quiet{min(least[i].goroutines, now.goroutines), min(least[i].sockets, now.sockets)}
		}
	}
	return least
}

// requireNoLeak waits until every process has what it had at first, or little more.
func (p *plant) requireNoLeak(ctx context.Context, first []quiet) {
	p.t.Helper()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		p.client.web.CloseIdleConnections()
		leaks := ""
		for i, now := range p.measure() {
			if now.goroutines < 0 || now.goroutines > first[i].goroutines+moreGoroutines || now.sockets > first[i].sockets+moreSockets {
				leaks += fmt.Sprintf("%s has %+v, at first %+v; ", p.keepers[i].name, now, first[i])
			}
		}
		if leaks == "" {
			p.t.Logf("at first %+v, at last %+v (goroutines, sockets)", first, p.measure())
			return
		}
		select {
		case <-ctx.Done():
			require.Fail(p.t, "leaks", leaks)
		case <-look.C:
		}
	}
}

// report tells what was done.
func (p *plant) report() {
	p.mu.Lock()
	defer p.mu.Unlock()
	total, lives := 0, 0
	var words []string
	for _, what := range slices.Sorted(maps.Keys(p.tally)) {
		words = append(words, fmt.Sprintf("%s %d", what, p.tally[what]))
		total += p.tally[what]
	}
	for _, k := range p.keepers {
		lives += k.lives
	}
	p.t.Logf("%s: %d faults, %d lives of %d processes, %d jobs of %d rows, %d of them damaged, %d singles: %s", p.t.Name(), total, lives, len(p.keepers),
		p.client.jobs, p.k.rows, p.client.damaged, p.client.asked.Load(), strings.Join(words, "; "))
	require.Positive(p.t, total)
}
