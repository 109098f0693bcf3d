package store

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// afterKill is the disk after the process is killed now: all that it wrote, synced or not.
func afterKill(disk *vfs.MemFS) *vfs.MemFS { return afterPowerCut(disk, 100, 0) }

// afterPowerCut is the disk after a power failure now, with some of the unsynced data.
func afterPowerCut(disk *vfs.MemFS, percent int, seed uint64) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})
}

// chargedOf returns the names that were charged or released in an account's ledger, in its order.
func chargedOf(t require.TestingT, s *Store, account string) []string {
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

// TestJournalInvariants draws sequences of charges and releases of single calls, reads of the ledger, kills of the process and power
// failures. The ledger always adds up and has the settlements in order and once: all of them after a kill; after a power failure the
// last ones may be missing, unless the ledger was read since.
func TestJournalInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		disk := vfs.NewCrashableMem()
		s, err := Open(disk, "state")
		require.NoError(rt, err)
		DelayMerge(s)
		HashCheaply(s)
		u, _, err := s.AddUser(t.Context(), NewUser{Email: "ann@example.com", Credits: 1000}, "test", evening)
		require.NoError(rt, err)
		settled := []string{}
		shown := 0 // how many of those the ledger must have
		for range rapid.IntRange(1, 12).Draw(rt, "acts") {
			switch rapid.IntRange(0, 4).Draw(rt, "act") {
			case 0, 1:
				for range rapid.IntRange(1, 20).Draw(rt, "singles") {
					name := s.NewRequest()
					settleOne(rt, s, u.ID, name, rapid.Int64Range(0, 1).Draw(rt, "used"))
					settled = append(settled, name)
				}
				continue
			case 2:
				s.mergeJournal()
				shown = len(settled)
				continue
			case 3:
				disk = afterKill(disk)
				shown = len(settled)
			case 4:
				disk = afterPowerCut(disk, rapid.IntRange(0, 99).Draw(rt, "kept"), rapid.Uint64().Draw(rt, "seed"))
			}
			s, err = Open(disk, "state")
			require.NoError(rt, err)
			DelayMerge(s)
			require.NoError(rt, s.CheckLedger(u.ID))
			have := chargedOf(rt, s, u.ID)
			require.GreaterOrEqual(rt, len(have), shown)
			require.Equal(rt, settled[:len(have)], have)
			settled, shown = settled[:len(have)], len(have)
		}
	})
}

// TestJournalWrapsAround: with more settlements than the journal has room for, calls wait for the disk, and none is lost or
// entered twice, whether the process is closed or killed.
func TestJournalWrapsAround(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, disk)
	DelayMerge(s)
	ann := userWithCredits(t, s)
	_, err := s.GrantCredits(ann, CreditGrant{ID: "more", Credits: 1e6, By: "test"}, evening)
	require.NoError(t, err)
	const calls = 30_000
	turns, half := 0, 0
	for range calls {
		settleOne(t, s, ann, s.NewRequest(), 1)
		if s.journal.activeHalf != half {
			half, turns = s.journal.activeHalf, turns+1
		}
	}
	require.Greater(t, turns, 3)
	require.NotZero(t, s.journal.waiting)
	s = open(t, afterKill(disk))
	c, err := s.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 1000+1_000_000-calls, c.Balance)
	require.NoError(t, s.CheckLedger(ann))
	require.NoError(t, s.Close())
}

// TestMappedJournal: on a real disk the journal is mapped; a copy of the files has all settlements.
func TestMappedJournal(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(vfs.Default, filepath.Join(dir, "state"))
	require.NoError(t, err)
	defer s.Close()
	DelayMerge(s)
	ann := userWithCredits(t, s)
	for range 100 {
		settleOne(t, s, ann, s.NewRequest(), 1)
	}
	require.NoError(t, os.CopyFS(filepath.Join(dir, "left"), os.DirFS(filepath.Join(dir, "state"))))
	after, err := Open(vfs.Default, filepath.Join(dir, "left"))
	require.NoError(t, err)
	c, err := after.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 900, c.Balance)
	require.NoError(t, after.Close())
}

// nothing is a part that makes a settlement a commit of its own.
func nothing(*pebble.Batch) error { return nil }

// TestSettlingTwiceIsHarmless: a settlement that is not yet in the ledger cannot be made twice either.
func TestSettlingTwiceIsHarmless(t *testing.T) {
	s := open(t, vfs.NewMem())
	DelayMerge(s)
	ann := userWithCredits(t, s)
	settleOne(t, s, ann, "r1", 1)
	require.NoError(t, s.SettleSingle(ann, "r1", 1, evening))
	require.ErrorIs(t, s.SettleSingle(ann, "r1", 0, evening), ErrLedgerConflict)
	require.NoError(t, s.ReserveSingle(ann, "r1", 1))
	require.NoError(t, s.SettleSingle(ann, "r1", 1, evening, nothing))
	settleOne(t, s, ann, "r2", 0)
	require.NoError(t, s.ReserveSingle(ann, "r2", 1), "as a new one")
	require.EqualValues(t, 1, s.Held(ann))
	require.ErrorIs(t, s.SettleSingle(ann, "r2", 1, evening), ErrLedgerConflict)
	require.NoError(t, s.SettleSingle(ann, "r2", 0, evening))
	c, err := s.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 999, c.Balance)
	require.Zero(t, s.Held(ann))
	require.NoError(t, s.Close())
}

// blockedFS is a disk whose logs are synced only when its gate is open.
type blockedFS struct {
	vfs.FS
	gate sync.RWMutex
	held atomic.Int64 // syncs that wait
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
	f.disk.held.Add(1)
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	f.disk.held.Add(-1)
	return f.File.SyncData()
}

// TestCreditsAreSpendableOnceDurable: single calls can spend a grant or a release only once it is durable, because they return before
// the next sync: a process that is killed while a sync hangs leaves no settlement that its balance does not cover.
func TestCreditsAreSpendableOnceDurable(t *testing.T) {
	disk := vfs.NewCrashableMem()
	slow := &blockedFS{FS: disk}
	s, err := Open(slow, "state")
	require.NoError(t, err)
	DelayMerge(s)
	HashCheaply(s)
	u, _, err := s.AddUser(t.Context(), NewUser{Email: "ann@example.com", Credits: 2}, "test", evening)
	require.NoError(t, err)
	settleOne(t, s, u.ID, s.NewRequest(), 1)
	settleOne(t, s, u.ID, s.NewRequest(), 0)
	slow.gate.Lock()
	var all sync.WaitGroup
	all.Go(s.mergeJournal)
	require.Eventually(t, func() bool { return slow.held.Load() > 0 }, time.Minute, time.Millisecond)
	all.Go(func() {
		_, err := s.GrantCredits(u.ID, CreditGrant{ID: "g1", Credits: 5, By: "test"}, evening)
		require.NoError(t, err)
	})
	all.Go(func() { settleOne(t, s, u.ID, s.NewRequest(), 1) })
	p := s.balances.find(u.ID)
	require.True(t, p.hasPendingRelease(), "the release is not durable")
	after := open(t, afterKill(disk))
	require.NoError(t, after.CheckLedger(u.ID))
	c, err := after.Credits(u.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Balance)
	require.NoError(t, after.Close())
	slow.gate.Unlock()
	all.Wait()
	c, err = s.Credits(u.ID)
	require.NoError(t, err)
	require.EqualValues(t, 5, c.Balance)
	require.NoError(t, s.Close())
}

// TestUncoveredJournalEntryIsSkipped: a journal entry that the balance does not cover, which we never write, does not prevent Open.
func TestUncoveredJournalEntryIsSkipped(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, disk)
	DelayMerge(s)
	ann := userWithCredits(t, s)
	settleOne(t, s, ann, s.NewRequest(), 1)
	p := s.balances.find(ann)
	for _, credits := range []int64{5000, 1} {
		one := &single{balance: p, request: s.NewRequest(), record: settlementRecord("r", credits, credits, evening)}
		s.journal.appendSingle(one)
	}
	after := open(t, afterKill(disk))
	c, err := after.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 999, c.Balance)
	require.NoError(t, after.Close())
}

// TestJournalHeaderIsDurable: two power failures do not bring back entries of the process before the first.
func TestJournalHeaderIsDurable(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, disk)
	DelayMerge(s)
	userWithCredits(t, s)
	before := afterPowerCut(disk, 0, 1)
	s = open(t, before)
	after := afterPowerCut(before, 0, 1)
	f, err := after.Open("state/" + journalName)
	require.NoError(t, err)
	head := make([]byte, processBytes)
	_, err = f.ReadAt(head, 0)
	require.NoError(t, err)
	require.Equal(t, s.journal.process[:], head)
}

// FuzzReadEnds: any content is read as far as it is valid, and the entries are written back the same way.
func FuzzReadEnds(f *testing.F) {
	process := [processBytes]byte{1, 2, 3}
	var half []byte
	for i, used := range []int64{1, 0, 1} {
		e := journalEntry{number: 7 + uint64(i), account: "u_1", record: settlementRecord(string(rune('a'+i)), used, 1, evening)}
		half = e.appendTo(half, process)
	}
	f.Add(half)
	f.Add(append(half, half...))
	f.Fuzz(func(t *testing.T, v []byte) {
		if len(v) > 6 { // make some of it valid
			e := journalEntry{number: 6, account: "u_2", record: settlementRecord("r", 1, 1, evening)}
			v = append(e.appendTo(nil, process), v...)
		}
		ends := readJournalEntries(v, process)
		var again []byte
		for i := range ends {
			again = ends[i].appendTo(again, process)
		}
		require.Equal(t, ends, readJournalEntries(again, process))
	})
}
