package main

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
	"probity/coordinator"
	"probity/engine"
	"probity/internal/memnet"
	"probity/store"
)

// ordeal is one job through several lives, each in a bubble of its own: between two lives the power is cut, and the clock jumps,
// ahead or back, for every bubble begins on the same day.
type ordeal struct {
	t       *testing.T
	k       torment
	random  *rand.Rand
	disk    *vfs.MemFS
	table   *engine.Table
	account string
	job     string
	faults  map[string]int
}

const (
	ordealSpeedup = 40 // hours of politeness pass in minutes, and the clock of a bubble costs nothing
	ordealLives   = 6  // with faults, at most; then one without
	ordealGrant   = 1_000_000
)

// TestTortureOfTime cuts the power and moves the clock between the lives of a job.
func TestTortureOfTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds; run without -short")
	}
	k := newTorment(t)
	until := time.Now().Add(k.time / 5)
	total := map[string]int{}
	for round := uint64(0); round == 0 || k.long && time.Now().Before(until); round++ {
		o := &ordeal{t: t, k: k, random: rand.New(rand.NewPCG(k.seed, 3<<32|round)), disk: vfs.NewCrashableMem(), faults: total}
		o.pass(round)
	}
	n := 0
	for _, times := range total {
		n += times
	}
	t.Logf("TestTortureOfTime: %d faults: %v", n, total)
}

// pass takes one job to its end.
func (o *ordeal) pass(round uint64) {
	w := sim.NewWorld(sim.Config{Seed: 1})
	var list, truth, toml bytes.Buffer
	require.NoError(o.t, sim.WriteList(&list, w, o.k.rows, o.k.seed+round))
	require.NoError(o.t, sim.WriteTruth(&truth, w, bytes.NewReader(list.Bytes())))
	require.NoError(o.t, sim.WriteProviders(&toml, ordealSpeedup))
	var err error
	o.table, err = engine.DefaultTable().Override(toml.Bytes())
	require.NoError(o.t, err)
	var job *store.Job
	var result []byte
	for n := 0; job == nil; n++ {
		synctest.Test(o.t, func(t *testing.T) { job, result = o.live(t, n, list.Bytes()) })
	}
	require.Equal(o.t, store.JobCompleted, job.State, job.Error)
	score, err := sim.Score(&truth, bytes.NewReader(result))
	require.NoError(o.t, err)
	o.t.Logf("ordeal %d: rows %d, unknown without need %d, wrong reason %d; %v", round, score.Rows, score.UnexpectedUnknown, score.WrongReason, job.Reasons)
	require.Equal(o.t, o.k.rows, score.Rows)
	require.Zero(o.t, score.MissingRows+score.ExtraRows+score.OrderErrors+score.ChangedCells, "lost, doubled, moved or changed: %+v", score)
	require.Zero(o.t, score.FalseValid+score.FalseInvalid, "lies: %+v", score)
	charge := billable(o.t, bytes.NewReader(result))
	require.Equal(o.t, charge, job.Charged)
	db, err := store.Open(o.disk, filepath.Join("node", "state"))
	require.NoError(o.t, err)
	require.NoError(o.t, db.CheckLedger(o.account))
	now, err := db.Credits(o.account)
	require.NoError(o.t, err)
	require.Equal(o.t, store.Credits{Balance: ordealGrant - charge}, now)
	require.NoError(o.t, db.Close())
}

// live is one life. It gives the job when it has come to its end.
func (o *ordeal) live(t *testing.T, n int, list []byte) (job *store.Job, result []byte) {
	jump := []time.Duration{0, time.Duration(o.random.Int64N(int64(2 * time.Hour))), time.Duration(o.random.Int64N(int64(20 * time.Hour)))}[o.random.IntN(3)]
	time.Sleep(jump) // the machine was off, or its clock was wrong in the last life
	o.faults["clock moved"]++
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := o.begin(t, ctx)
	defer b.end(t)
	lasts := 100 * time.Hour
	if n < ordealLives {
		lasts = time.Duration(o.random.Int64N(int64(time.Minute)))
	}
	err := withNode(ctx, b.node, func(ctx context.Context) error {
		if o.job == "" {
			if err := o.accept(ctx, b, list); err != nil {
				return err
			}
		}
		var faults sync.WaitGroup
		defer faults.Wait()
		ctx, stop := context.WithTimeout(ctx, lasts)
		defer stop()
		if n < ordealLives {
			faults.Go(func() { o.hurt(ctx, b) })
		}
		j, err := b.node.coordinator.Wait(ctx, o.job)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := b.node.coordinator.Results(ctx, o.job, coordinator.Filter{}, &out); err != nil {
			return err
		}
		job, result = j, out.Bytes()
		return nil
	})
	requirePolite(t, b.internet.Referee.Report())
	switch {
	case err == nil:
	case errors.Is(err, syscall.EIO):
		o.faults["a step of the disk failed"]++
	default:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	o.cut()
	return job, result
}

// cut cuts the power: some of what was not synced is lost.
func (o *ordeal) cut() {
	kept := []int{0, 50, 100}[o.random.IntN(3)]
	o.disk = o.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: o.random})
	o.faults[fmt.Sprintf("power cut, %d%% of the unsynced kept", kept)]++
}

// accept hands the list in, as an account's.
func (o *ordeal) accept(ctx context.Context, b *bubbleWorld, list []byte) error {
	u, _, err := b.node.store.AddUser(ctx, store.NewUser{Email: "ordeal@customer.example", Credits: ordealGrant}, "test", time.Now())
	if err != nil {
		return err
	}
	j, err := b.node.coordinator.Accept(ctx, coordinator.Upload{Body: bytes.NewReader(list), Options: coordinator.Options{Account: u.ID, MaxHours: maxHours,
		Parts: func(j *store.Job) []store.Part {
			return []store.Part{store.ReserveJob(j.Account, j.ID, j.Unique, j.CreatedAt)}
		}}})
	if err != nil {
		return err
	}
	o.account, o.job = u.ID, j.ID
	return nil
}

// hurt draws faults of the network and of the disk while the life lasts.
func (o *ordeal) hurt(ctx context.Context, b *bubbleWorld) {
	random := rand.New(rand.NewPCG(o.random.Uint64(), 1))
	for {
		rest(ctx, time.Duration(random.Int64N(int64(2*time.Second))))
		if ctx.Err() != nil {
			b.names[1].heal()
			return
		}
		switch random.IntN(8) {
		case 0, 1, 2:
			o.faults["DNS "+b.names[random.IntN(2)].become(random.Uint64())]++
		case 3:
			b.names[0].heal()
			b.names[1].heal()
		case 4, 5:
			o.faults["SMTP half open"] += b.each(random, (*bubbleConn).die)
		case 6:
			o.faults["SMTP reset"] += b.each(random, func(c *bubbleConn) { _ = c.Conn.Close() })
		case 7:
			b.disk.persist.Store(random.IntN(2) == 0)
			b.disk.left.Store(1 + random.Int64N(100))
		}
	}
}

// bubbleWorld is what a life has around it.
type bubbleWorld struct {
	node     *node
	internet *sim.Server
	names    []*nameRelay
	disk     *tornDisk

	mu    sync.Mutex // guards conns
	conns map[*bubbleConn]bool
}

func (o *ordeal) begin(t *testing.T, ctx context.Context) *bubbleWorld {
	network := memnet.New()
	b := &bubbleWorld{conns: map[*bubbleConn]bool{}, disk: &tornDisk{FS: o.disk, only: "jobs"}}
	var err error
	b.internet, err = sim.Start(ctx, sim.Config{Seed: 1, Speedup: ordealSpeedup, SMTPPort: 25, DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
	require.NoError(t, err)
	var servers []netip.AddrPort
	for i, at := range []string{"127.0.0.2:53", "127.0.0.3:53"} {
		b.names = append(b.names, newNameRelay(t, network, network.Dial, at, "127.0.0.1:53", i == 1))
		servers = append(servers, netip.MustParseAddrPort(at))
	}
	b.node = memParts{table: o.table, fs: b.disk, network: network, servers: servers, ids: bothIdentities(), dial: b.dial(network), finish: finish()}.node(t)
	return b
}

func (b *bubbleWorld) end(t *testing.T) {
	require.NoError(t, b.node.Close())
	for _, r := range b.names {
		r.close()
	}
	require.NoError(t, b.internet.Close())
}

// dial gives connections that can be hurt.
func (b *bubbleWorld) dial(network *memnet.Network) func(ctx context.Context, local netip.Addr, kind, address string) (net.Conn, error) {
	return func(ctx context.Context, local netip.Addr, kind, address string) (net.Conn, error) {
		conn, err := network.DialFrom(local)(ctx, kind, address)
		if err != nil {
			return nil, err
		}
		c := &bubbleConn{Conn: conn, world: b}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns[c] = true
		return c, nil
	}
}

// each does something to about a third of the connections.
func (b *bubbleWorld) each(random *rand.Rand, do func(*bubbleConn)) (n int) {
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

// bubbleConn is a connection that can be half open: what is written is lost, what comes is not heard.
type bubbleConn struct {
	net.Conn
	world *bubbleWorld
	dead  atomic.Bool
}

func (c *bubbleConn) die() { c.dead.Store(true) }

func (c *bubbleConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dead.Load() {
			return n, err
		}
	}
}

func (c *bubbleConn) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// CloseWrite lets the session tell the server that it leaves, if the cable still carries that.
func (c *bubbleConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || c.dead.Load() {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (c *bubbleConn) Close() error {
	c.world.mu.Lock()
	delete(c.world.conns, c)
	c.world.mu.Unlock()
	return c.Conn.Close()
}
