package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/internal/detector"
)

var evening = time.Date(2026, 3, 4, 18, 0, 0, 123456789, time.UTC)

// afterKill is the disk after the process is killed now: all that it wrote, synced or not.
func afterKill(disk *vfs.MemFS) *vfs.MemFS { return afterPowerCut(disk, 100, 0) }

// afterPowerCut is the disk after a power failure now, with some of the unsynced data.
func afterPowerCut(disk *vfs.MemFS, percent int, seed uint64) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})
}

// settleOne reserves one credit and settles.
func settleOne(t require.TestingT, s *Store, account, name string, used int64) {
	require.NoError(t, s.ReserveSingle(account, name, 1))
	require.NoError(t, s.SettleSingle(account, name, used, evening))
}

func addCustomer(t require.TestingT, s *Store, email string, credits int64) (account string) {
	HashCheaply(s)
	u, _, err := s.AddUser(context.Background(), NewUser{Email: email, Password: "long enough", Credits: credits},
		"test", evening)
	require.NoError(t, err)
	return u.ID
}

// settledIn returns the names that were charged or released in an account's ledger, in its order.
func settledIn(t require.TestingT, s *Store, account string) []string {
	names := []string{}
	for before := uint64(0); ; {
		page, err := s.Ledger(account, before, 0)
		require.NoError(t, err)
		for _, e := range page {
			if e.Kind == Charge || e.Kind == Release {
				names = append(names, e.Cause[len(singleCause):])
			}
			before = e.Number
		}
		if len(page) < MaxPage {
			break
		}
	}
	slices.Reverse(names)
	return names
}

// TestAnAnsweredCallIsCharged draws sequences of charges and releases of single calls, kills of the process and power
// failures. Each time the ledger adds up and has every settlement that returned, once and in order. A reservation that
// was open is over.
func TestAnAnsweredCallIsCharged(t *testing.T) {
	detector.SpareByDay(t)
	rapid.Check(t, func(rt *rapid.T) {
		disk := vfs.NewCrashableMem()
		s, err := Open(disk, "state")
		require.NoError(rt, err)
		ann := addCustomer(rt, s, "ann@example.com", 1000)
		settled, balance := []string{}, int64(1000)
		for range rapid.IntRange(1, 12).Draw(rt, "acts") {
			switch rapid.IntRange(0, 3).Draw(rt, "act") {
			case 0, 1:
				for range rapid.IntRange(1, 20).Draw(rt, "singles") {
					name, used := s.NewRequest(), rapid.Int64Range(0, 1).Draw(rt, "used")
					settleOne(rt, s, ann, name, used)
					settled = append(settled, name)
					balance -= used
				}
				require.NoError(rt, s.ReserveSingle(ann, s.NewRequest(), 3))
				continue
			case 2:
				disk = afterKill(disk)
			case 3:
				kept, seed := rapid.IntRange(0, 99).Draw(rt, "kept"), rapid.Uint64().Draw(rt, "seed")
				disk = afterPowerCut(disk, kept, seed)
			}
			s, err = Open(disk, "state")
			require.NoError(rt, err)
			require.NoError(rt, s.CheckLedger(ann))
			require.Equal(rt, settled, settledIn(rt, s, ann))
			require.Zero(rt, s.ReservedBySingles(ann))
			c, err := s.Credits(ann)
			require.NoError(rt, err)
			require.Equal(rt, Credits{Balance: balance}, c)
		}
	})
}

// TestAnsweredCallsOfManyAreCharged cuts the power while many calls of accounts with few credits, and grants, are under
// way. Each call that was answered before is charged, no ledger is overdrawn, and each adds up.
func TestAnsweredCallsOfManyAreCharged(t *testing.T) {
	for seed := range uint64(20) {
		disk := vfs.NewCrashableMem()
		s := open(t, disk)
		accounts := []string{addCustomer(t, s, "ann@example.com", 40), addCustomer(t, s, "bob@example.com", 40)}
		var (
			mu       sync.Mutex
			answered [2][]string
			calls    sync.WaitGroup
			half     = make(chan struct{})
		)
		for g := range 8 {
			account := accounts[g%2]
			calls.Go(func() {
				for i := range 20 {
					name := s.NewRequest()
					if s.ReserveSingle(account, name, 1) != nil {
						grant := CreditGrant{ID: fmt.Sprint(g, " ", i), Credits: 1, By: "test"}
						_, err := s.GrantCredits(account, grant, evening)
						require.NoError(t, err)
						continue
					}
					require.NoError(t, s.SettleSingle(account, name, 1, evening))
					mu.Lock()
					answered[g%2] = append(answered[g%2], name)
					if len(answered[0])+len(answered[1]) == 30 {
						close(half)
					}
					mu.Unlock()
				}
			})
		}
		<-half
		mu.Lock()
		before := [2][]string{slices.Clone(answered[0]), slices.Clone(answered[1])}
		mu.Unlock()
		after := open(t, afterPowerCut(disk, int(seed*5), seed))
		for i, account := range accounts {
			require.NoError(t, after.CheckLedger(account))
			require.Subset(t, settledIn(t, after, account), before[i])
		}
		calls.Wait()
		require.NoError(t, after.Close())
		require.NoError(t, s.Close())
	}
}

// nothing is a part that only makes a settlement one with further parts.
func nothing(*pebble.Batch) error { return nil }

func TestSettlingTwiceIsHarmless(t *testing.T) {
	s := open(t, vfs.NewMem())
	ann := addCustomer(t, s, "ann@example.com", 1000)
	settleOne(t, s, ann, "r1", 1)
	require.NoError(t, s.SettleSingle(ann, "r1", 1, evening))
	require.ErrorIs(t, s.SettleSingle(ann, "r1", 0, evening), ErrLedgerConflict)
	require.NoError(t, s.ReserveSingle(ann, "r1", 1))
	require.NoError(t, s.SettleSingle(ann, "r1", 1, evening, nothing))
	settleOne(t, s, ann, "r2", 0)
	require.NoError(t, s.ReserveSingle(ann, "r2", 1), "as a new one")
	require.EqualValues(t, 1, s.ReservedBySingles(ann))
	require.ErrorIs(t, s.SettleSingle(ann, "r2", 1, evening), ErrLedgerConflict)
	require.NoError(t, s.SettleSingle(ann, "r2", 0, evening))
	c, err := s.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 999, c.Balance)
	require.Zero(t, s.ReservedBySingles(ann))
	require.NoError(t, s.Close())
}

// blockedFS is a disk that syncs logs only once its gate is open.
type blockedFS struct {
	vfs.FS
	gate   chan struct{} // closed: open
	closed atomic.Bool
	syncs  atomic.Int64 // begun
}

func (d *blockedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if strings.HasSuffix(name, ".log") && err == nil {
		f = &blockedLog{f, d}
	}
	return f, err
}

type blockedLog struct {
	vfs.File
	disk *blockedFS
}

func (f *blockedLog) SyncData() error {
	f.disk.syncs.Add(1)
	if f.disk.closed.Load() {
		<-f.disk.gate
	}
	return f.File.SyncData()
}

// TestAnswersWaitForTheirSync: while a sync hangs, no settlement returns, also not one that spends a grant that is not
// durable or repeats a settlement, and a power failure loses them all. Once the disk goes on, a few syncs answer
// hundreds of calls.
func TestAnswersWaitForTheirSync(t *testing.T) { synctest.Test(t, settleWithoutSync) }

func settleWithoutSync(t *testing.T) {
	const calls = 300
	disk := vfs.NewCrashableMem()
	slow := &blockedFS{FS: disk, gate: make(chan struct{})}
	s := open(t, slow)
	ann := addCustomer(t, s, "ann@example.com", calls)
	slow.closed.Store(true)
	before := slow.syncs.Load()
	var answered atomic.Int64
	commit := func(work func() error) {
		go func() {
			require.NoError(t, work())
			answered.Add(1)
		}()
	}
	settle := func(name string) {
		commit(func() error { return s.SettleSingle(ann, name, 1, evening) })
	}
	requireBalance := func(want int64) {
		t.Helper()
		synctest.Wait()
		c, err := s.Credits(ann)
		require.NoError(t, err)
		require.Equal(t, want, c.Balance)
	}
	for range calls {
		name := s.NewRequest()
		require.NoError(t, s.ReserveSingle(ann, name, 1))
		settle(name)
	}
	requireBalance(0)
	require.Error(t, s.ReserveSingle(ann, "one more", 1), "what is settled is spent")
	commit(func() error {
		_, err := s.GrantCredits(ann, CreditGrant{ID: "g1", Credits: 5, By: "test"}, evening)
		return err
	})
	requireBalance(5)
	require.NoError(t, s.ReserveSingle(ann, "granted", 1))
	settle("granted")
	requireBalance(4)
	settle("granted") // repeated
	requireBalance(4)
	require.Zero(t, answered.Load())
	for percent := range 10 {
		after := open(t, afterPowerCut(disk, percent*11, 1))
		require.NoError(t, after.CheckLedger(ann))
		require.NoError(t, after.Close())
	}
	close(slow.gate)
	requireBalance(4)
	require.EqualValues(t, calls+3, answered.Load())
	require.LessOrEqual(t, slow.syncs.Load()-before, int64(10))
	require.NoError(t, s.Close())
}
