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

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// killed is what the process leaves that is ended now: all that it wrote, synced or not.
func killed(disk *vfs.MemFS) *vfs.MemFS { return powerCut(disk, 100, 0) }

// powerCut is what is left when the power is cut now, with some of what was not synced.
func powerCut(disk *vfs.MemFS, percent int, seed uint64) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 1))})
}

// chargedOf is the names in an account's ledger that were charged or released, in its order.
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

// TestJournalLaw draws lives of an account: singles that are charged or released, looks at the ledger, processes that are killed
// and power that is cut. Whatever happens the ledger adds up and has what was settled, in order and once: all of it after a kill,
// and after a cut of the power all but the last that nobody had looked at.
func TestJournalLaw(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		disk := vfs.NewCrashableMem()
		s, err := Open(disk, "state")
		require.NoError(rt, err)
		FoldLater(s)
		HashCheaply(s)
		u, _, err := s.AddUser(t.Context(), NewUser{Email: "ann@example.com", Credits: 1000}, "test", dusk)
		require.NoError(rt, err)
		settled := []string{}
		shown := 0 // of those, how many the ledger surely has
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
				s.shown()
				shown = len(settled)
				continue
			case 3:
				disk = killed(disk)
				shown = len(settled)
			case 4:
				disk = powerCut(disk, rapid.IntRange(0, 99).Draw(rt, "kept"), rapid.Uint64().Draw(rt, "seed"))
			}
			s, err = Open(disk, "state")
			require.NoError(rt, err)
			FoldLater(s)
			require.NoError(rt, s.CheckLedger(u.ID))
			have := chargedOf(rt, s, u.ID)
			require.GreaterOrEqual(rt, len(have), shown)
			require.Equal(rt, settled[:len(have)], have)
			settled, shown = settled[:len(have)], len(have)
		}
	})
}

// TestJournalGoesRound: more ends than the journal has room for wait for the disk, and none is lost or entered twice, whether
// the process ends well or not.
func TestJournalGoesRound(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, disk)
	FoldLater(s)
	ann := richUser(t, s)
	_, err := s.GrantCredits(ann, Gift{ID: "more", Credits: 1e6, By: "test"}, dusk)
	require.NoError(t, err)
	const calls = 30_000
	turns, half := 0, 0
	for range calls {
		settleOne(t, s, ann, s.NewRequest(), 1)
		if s.journal.half != half {
			half, turns = s.journal.half, turns+1
		}
	}
	require.Greater(t, turns, 3)
	require.NotZero(t, s.journal.waiting)
	s = open(t, killed(disk))
	c, err := s.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 1000+1_000_000-calls, c.Balance)
	require.NoError(t, s.CheckLedger(ann))
	require.NoError(t, s.Close())
}

// TestMappedJournal: on a real disk the journal is memory; a copy of the files has all that was settled.
func TestMappedJournal(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(vfs.Default, filepath.Join(dir, "state"))
	require.NoError(t, err)
	defer s.Close()
	FoldLater(s)
	ann := richUser(t, s)
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

// TestSettledAgain: what is settled and not yet in the ledger is as if it were.
func TestSettledAgain(t *testing.T) {
	s := open(t, vfs.NewMem())
	FoldLater(s)
	ann := richUser(t, s)
	settleOne(t, s, ann, "r1", 1)
	require.NoError(t, s.ChargeSingle(ann, "r1", 1, dusk))
	require.NoError(t, s.SettleSingle(ann, "r1", 1, dusk))
	require.ErrorIs(t, s.SettleSingle(ann, "r1", 0, dusk), ErrLedgerConflict)
	settleOne(t, s, ann, "r2", 0)
	require.NoError(t, s.ReserveSingle(ann, "r2", 1, dusk), "as a new one")
	require.EqualValues(t, 1, s.Held(ann))
	require.ErrorIs(t, s.SettleSingle(ann, "r2", 1, dusk), ErrLedgerConflict)
	require.NoError(t, s.SettleSingle(ann, "r2", 0, dusk))
	c, err := s.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 999, c.Balance)
	require.Zero(t, s.Held(ann))
	require.NoError(t, s.Close())
}

// stuck is a disk whose logs are synced only when its gate is open.
type stuck struct {
	vfs.FS
	gate sync.RWMutex
	held atomic.Int64 // syncs that wait
}

func (d *stuck) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if strings.HasSuffix(name, ".log") && err == nil {
		f = &stuckLog{f, d}
	}
	return f, err
}

type stuckLog struct {
	vfs.File
	disk *stuck
}

func (f *stuckLog) SyncData() error {
	f.disk.held.Add(1)
	f.disk.gate.RLock()
	defer f.disk.gate.RUnlock()
	f.disk.held.Add(-1)
	return f.File.SyncData()
}

// TestCreditsComeBackDurably: what a grant or a release gives is spent by singles once the disk has it, for these are told
// before the next sync: a process that is killed while a sync hangs leaves nothing behind that its balance does not cover.
func TestCreditsComeBackDurably(t *testing.T) {
	disk := vfs.NewCrashableMem()
	slow := &stuck{FS: disk}
	s, err := Open(slow, "state")
	require.NoError(t, err)
	FoldLater(s)
	HashCheaply(s)
	u, _, err := s.AddUser(t.Context(), NewUser{Email: "ann@example.com", Credits: 2}, "test", dusk)
	require.NoError(t, err)
	settleOne(t, s, u.ID, s.NewRequest(), 1)
	settleOne(t, s, u.ID, s.NewRequest(), 0)
	slow.gate.Lock()
	var all sync.WaitGroup
	all.Go(s.fold)
	require.Eventually(t, func() bool { return slow.held.Load() > 0 }, time.Minute, time.Millisecond)
	all.Go(func() {
		_, err := s.GrantCredits(u.ID, Gift{ID: "g1", Credits: 5, By: "test"}, dusk)
		require.NoError(t, err)
	})
	all.Go(func() { settleOne(t, s, u.ID, s.NewRequest(), 1) })
	p := s.purses.find(u.ID)
	require.True(t, p.expects(), "the release is not durable")
	after := open(t, killed(disk))
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

// TestUncoveredEndIsLeft: what a journal tells beyond the balance, as nothing of ours does, keeps no store shut.
func TestUncoveredEndIsLeft(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, disk)
	FoldLater(s)
	ann := richUser(t, s)
	settleOne(t, s, ann, s.NewRequest(), 1)
	p := s.purses.find(ann)
	for _, credits := range []int64{5000, 1} {
		one := &single{purse: p, request: s.NewRequest(), record: endOfSingle("r", credits, credits, dusk)}
		s.journal.enter(one)
	}
	after := open(t, killed(disk))
	c, err := after.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 999, c.Balance)
	require.NoError(t, after.Close())
}

// TestHeadIsDurable: two power cuts do not bring the ends of the process before the first back.
func TestHeadIsDurable(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, disk)
	FoldLater(s)
	richUser(t, s)
	before := powerCut(disk, 0, 1)
	s = open(t, before)
	after := powerCut(before, 0, 1)
	f, err := after.Open("state/" + journalName)
	require.NoError(t, err)
	head := make([]byte, processBytes)
	_, err = f.ReadAt(head, 0)
	require.NoError(t, err)
	require.Equal(t, s.journal.process[:], head)
}

// FuzzReadEnds: whatever stands in the file is read as far as it is whole, and what is read is written the same way.
func FuzzReadEnds(f *testing.F) {
	process := [processBytes]byte{1, 2, 3}
	var half []byte
	for i, used := range []int64{1, 0, 1} {
		e := end{number: 7 + uint64(i), account: "u_1", record: endOfSingle(string(rune('a'+i)), used, 1, dusk)}
		half = e.appendTo(half, process)
	}
	f.Add(half)
	f.Add(append(half, half...))
	f.Fuzz(func(t *testing.T, v []byte) {
		if len(v) > 6 { // let some of it be whole
			e := end{number: 6, account: "u_2", record: endOfSingle("r", 1, 1, dusk)}
			v = append(e.appendTo(nil, process), v...)
		}
		ends := readEnds(v, process)
		var again []byte
		for i := range ends {
			again = ends[i].appendTo(again, process)
		}
		require.Equal(t, ends, readEnds(again, process))
	})
}
