package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/score"
	"probity/bench/sim/world"
	"probity/coordinator/callback"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/app"
	"probity/internal/detector"
	"probity/internal/memnet"
	"probity/store"
	"probity/tests/harness"
)

// crashingJob is one job over several runs, each in a bubble of its own. Between two runs the power is cut, and the
// clock jumps forward or back, since every bubble begins on the same day.
type crashingJob struct {
	t       *testing.T
	run     tortureRun
	random  *rand.Rand
	disk    *vfs.MemFS
	table   *engine.Table
	account string
	job     string
	faults  map[string]int
}

const (
	crashSpeedup = 40 // hours of budgets pass in minutes, and the clock of a bubble costs nothing
	crashLives   = 6  // runs with faults, at most; then one without
	crashCredits = 1_000_000
)

// TestTortureOfTime cuts the power and moves the clock between the runs of a job.
func TestTortureOfTime(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("it takes seconds; run without -short")
	}
	k := newTortureRun(t)
	until := time.Now().Add(k.duration / 5)
	total := map[string]int{}
	for round := uint64(0); round == 0 || k.long && time.Now().Before(until); round++ {
		o := &crashingJob{t: t, run: k, random: rand.New(rand.NewPCG(k.seed, 3<<32|round)), disk: vfs.NewCrashableMem(),
			faults: total}
		o.runToEnd(round)
	}
	n := 0
	for _, times := range total {
		n += times
	}
	t.Logf("TestTortureOfTime: %d faults: %v", n, total)
}

// runToEnd runs one job to its end.
func (o *crashingJob) runToEnd(round uint64) {
	w := world.New(world.Config{Seed: 1})
	var list, truth, toml bytes.Buffer
	require.NoError(o.t, world.WriteList(&list, w, o.run.rows, o.run.seed+round))
	require.NoError(o.t, score.WriteTruth(&truth, w, bytes.NewReader(list.Bytes())))
	require.NoError(o.t, sim.WriteProviders(&toml, crashSpeedup))
	var err error
	o.table, err = engine.DefaultTable().Override(toml.Bytes())
	require.NoError(o.t, err)
	var job *store.Job
	var result []byte
	for n := 0; job == nil; n++ {
		synctest.Test(o.t, func(t *testing.T) { job, result = o.runLife(t, n, list.Bytes()) })
	}
	require.Equal(o.t, store.JobCompleted, job.State, job.Error)
	found, err := score.Compare(&truth, bytes.NewReader(result))
	require.NoError(o.t, err)
	o.t.Logf("ordeal %d: rows %d, unknown without need %d, wrong reason %d; %v", round, found.Rows,
		found.UnexpectedUnknown, found.WrongReason, job.Reasons)
	require.Equal(o.t, o.run.rows, found.Rows)
	require.Zero(o.t, found.MissingRows+found.ExtraRows+found.OrderErrors+found.ChangedCells,
		"lost, doubled, moved or changed: %+v", found)
	require.Zero(o.t, found.FalseValid+found.FalseInvalid, "lies: %+v", found)
	charge := billable(o.t, bytes.NewReader(result))
	require.Equal(o.t, charge, job.Charged)
	db, err := store.Open(o.disk, filepath.Join("node", "state"))
	require.NoError(o.t, err)
	require.NoError(o.t, db.CheckLedger(o.account))
	now, err := db.Credits(o.account)
	require.NoError(o.t, err)
	require.Equal(o.t, store.Credits{Balance: crashCredits - charge}, now)
	require.NoError(o.t, db.Close())
}

// runLife is one run. It returns the job when it has ended.
func (o *crashingJob) runLife(t *testing.T, n int, list []byte) (job *store.Job, result []byte) {
	jump := []time.Duration{0, time.Duration(o.random.Int64N(int64(2 * time.Hour))),
		time.Duration(o.random.Int64N(int64(20 * time.Hour)))}[o.random.IntN(3)]
	time.Sleep(jump) // the machine was off, or its clock was wrong in the last run
	o.faults["clock moved"]++
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := o.startLife(ctx, t)
	defer b.close(t)
	lasts := 100 * time.Hour
	if n < crashLives {
		lasts = time.Duration(o.random.Int64N(int64(time.Minute)))
	}
	err := b.node.RunWhile(ctx, func(ctx context.Context) error {
		if o.job == "" {
			if err := o.acceptJob(ctx, b, list); err != nil {
				return err
			}
		}
		var faults sync.WaitGroup
		defer faults.Wait()
		ctx, stop := context.WithTimeout(ctx, lasts)
		defer stop()
		if n < crashLives {
			faults.Go(func() { o.injectFaults(ctx, b) })
		}
		j, err := b.node.Coordinator.Wait(ctx, o.job)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := b.node.Coordinator.Results(ctx, o.job, results.Filter{}, &out); err != nil {
			return err
		}
		job, result = j, out.Bytes()
		return nil
	})
	harness.RequireWithinLimits(t, b.internet.Referee.Report())
	switch {
	case err == nil:
	case errors.Is(err, syscall.EIO):
		o.faults["a step of the disk failed"]++
	default:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	o.cutPower()
	return job, result
}

// cutPower cuts the power: some of what was not synced is lost.
func (o *crashingJob) cutPower() {
	kept := []int{0, 50, 100}[o.random.IntN(3)]
	o.disk = o.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: o.random})
	o.faults[fmt.Sprintf("power cut, %d%% of the unsynced kept", kept)]++
}

// acceptJob uploads the list for an account.
func (o *crashingJob) acceptJob(ctx context.Context, b *crashLife, list []byte) error {
	u, _, err := b.node.Store.AddUser(ctx, store.NewUser{Email: "ordeal@customer.example", Credits: crashCredits},
		"test", time.Now())
	if err != nil {
		return err
	}
	j, err := b.node.Coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list),
		Options: ingest.Options{Account: u.ID, MaxHours: ingest.MaxHours,
			Parts: func(j *store.Job) []store.Part {
				return []store.Part{store.ReserveJob(j.Account, j.ID, j.Unique, j.CreatedAt)}
			}}})
	if err != nil {
		return err
	}
	o.account, o.job = u.ID, j.ID
	return nil
}

// injectFaults draws faults of the network and of the disk during the run.
func (o *crashingJob) injectFaults(ctx context.Context, b *crashLife) {
	random := rand.New(rand.NewPCG(o.random.Uint64(), 1))
	for {
		sleepCtx(ctx, time.Duration(random.Int64N(int64(2*time.Second))))
		if ctx.Err() != nil {
			b.dnsRelays[1].heal()
			return
		}
		switch random.IntN(8) {
		case 0, 1, 2:
			o.faults["DNS "+b.dnsRelays[random.IntN(2)].setMode(random.Uint64())]++
		case 3:
			b.dnsRelays[0].heal()
			b.dnsRelays[1].heal()
		case 4, 5:
			o.faults["SMTP half open"] += b.eachConn(random, (*halfOpenConn).goSilent)
		case 6:
			o.faults["SMTP reset"] += b.eachConn(random, func(c *halfOpenConn) { _ = c.Conn.Close() })
		case 7:
			word := []string{"failafter", "fail"}[random.IntN(2)]
			b.disk.Execute(fmt.Sprint(word, " ", 1+random.Int64N(100)))
		}
	}
}

// crashLife is the environment of one run.
type crashLife struct {
	node      *app.Node
	internet  *sim.Server
	dnsRelays []*dnsRelay
	disk      *harness.FaultyDisk

	mu    sync.Mutex // guards conns
	conns map[*halfOpenConn]bool
}

func (o *crashingJob) startLife(ctx context.Context, t *testing.T) *crashLife {
	network := memnet.New()
	b := &crashLife{conns: map[*halfOpenConn]bool{}, disk: &harness.FaultyDisk{FS: o.disk, PathPart: "jobs"}}
	var err error
	b.internet, err = sim.Start(ctx, world.Config{Seed: 1, Speedup: crashSpeedup, SMTPPort: 25,
		DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
	require.NoError(t, err)
	var servers []netip.AddrPort
	for i, at := range []string{"127.0.0.2:53", "127.0.0.3:53"} {
		b.dnsRelays = append(b.dnsRelays, newDNSRelay(t, network, network.Dial, at, "127.0.0.1:53", i == 1))
		servers = append(servers, netip.MustParseAddrPort(at))
	}
	b.node = harness.NodeParts{Table: o.table, FS: b.disk, Network: network, Servers: servers,
		Sources: harness.TwoIdentities(), Dial: b.dial(network), JobEndParts: settledAndCalledBack}.Node(t)
	return b
}

func (b *crashLife) close(t *testing.T) {
	require.NoError(t, b.node.Close())
	for _, r := range b.dnsRelays {
		r.close()
	}
	require.NoError(t, b.internet.Close())
}

// dial returns connections with faults.
func (b *crashLife) dial(network *memnet.Network) func(ctx context.Context, local netip.Addr, kind,
	address string) (net.Conn, error) {
	return func(ctx context.Context, local netip.Addr, kind, address string) (net.Conn, error) {
		conn, err := network.DialFrom(local)(ctx, kind, address)
		if err != nil {
			return nil, err
		}
		c := &halfOpenConn{Conn: conn, life: b}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns[c] = true
		return c, nil
	}
}

// eachConn does something to about a third of the connections.
func (b *crashLife) eachConn(random *rand.Rand, do func(*halfOpenConn)) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if random.IntN(3) == 0 {
			do(c)
			n++
		}
	}
	return n
}

// halfOpenConn is a connection that can be half open: writes are lost and no data is received.
type halfOpenConn struct {
	net.Conn
	life   *crashLife
	silent atomic.Bool
}

func (c *halfOpenConn) goSilent() { c.silent.Store(true) }

func (c *halfOpenConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

func (c *halfOpenConn) Write(b []byte) (int, error) {
	if c.silent.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// CloseWrite closes the session's side, if the link still works.
func (c *halfOpenConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || c.silent.Load() {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (c *halfOpenConn) Close() error {
	c.life.mu.Lock()
	delete(c.life.conns, c)
	c.life.mu.Unlock()
	return c.Conn.Close()
}

// settledAndCalledBack are the parts of the commit that ends a job, as a service has them.
func settledAndCalledBack(j *store.Job) []store.Part {
	return []store.Part{store.SettleJob(j.Account, j.ID, j.Charged, j.FinishedAt), callback.Schedule(j)}
}
