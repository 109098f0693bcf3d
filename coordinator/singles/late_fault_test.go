package singles

import (
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/engine"
	"probity/store"
)

// noLists knows nothing of any address.
type noLists struct{}

func (noLists) Flags(engine.Address) engine.Flags     { return 0 }
func (noLists) Suggest(engine.Address) (guess string) { return "" }

// newLate opens the calls of a store, whose verdicts are all VALID.
func newLate(t *testing.T, s *store.Store) (l *Late, notified *atomic.Int64) {
	valid := func(engine.Address) engine.Verdict {
		return engine.VerdictFor(engine.ReasonNone, "test", 0, time.Now())
	}
	c := coordinator.New(coordinator.Config{Store: s, Table: engine.DefaultTable(), Lists: noLists{},
		TestVerdict: valid})
	notified = &atomic.Int64{}
	l, err := Open(Config{Store: s, Coordinator: c, Notify: func() { notified.Add(1) }})
	require.NoError(t, err)
	return l, notified
}

// tryOrDie is one try. A store that cannot go on panics with Lost, which ends the process; its store is never closed.
func tryOrDie(t *testing.T, l *Late, w *wait) (err error) {
	defer func() {
		if p := recover(); p != nil {
			lost, ok := p.(store.Lost)
			if !ok {
				panic(p)
			}
			err = lost
		}
	}()
	return l.try(t.Context(), w)
}

// TestAnAnswerIsOneCommit: the commit of a verdict fails, before or after it is on the disk. The call then has both
// its verdict and its callback, or neither, and the next process ends it once.
func TestAnAnswerIsOneCommit(t *testing.T) {
	answeredBefore := map[bool]bool{}
	for _, percent := range []int{0, 100} { // of what was not synced that a crash leaves
		for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
			disk := vfs.NewCrashableMem()
			var fails atomic.Bool
			s, err := store.Open(errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if fails.Load() && op.Kind == kind && strings.HasSuffix(op.Path, ".log") {
					return errorfs.ErrInjected
				}
				return nil
			})), "state")
			require.NoError(t, err)
			call := Call{ID: "r1", Account: "u1", Charge: "charge-1", Email: "ann@shop.test", Test: true,
				URL: "http://127.0.0.1/", Made: time.Now()}
			require.NoError(t, s.Commit(call.Account, call.write()))
			l, notified := newLate(t, s)
			fails.Store(true)
			require.Error(t, tryOrDie(t, l, l.waiting[call.ID]))
			require.Zero(t, notified.Load())
			require.Contains(t, l.waiting, call.ID, "it waits: nobody was told that it was answered")
			crashed := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
				RNG: rand.New(rand.NewPCG(1, uint64(percent)))})

			s, err = store.Open(crashed, "state")
			require.NoError(t, err)
			l, notified = newLate(t, s)
			before, err := Read(s, call.ID)
			require.NoError(t, err)
			scheduled, _, err := s.DueCallbacks(time.Now().Add(time.Hour), store.DueCursor{}, 10)
			require.NoError(t, err)
			require.Equal(t, !before.Answered.IsZero(), len(scheduled) == 1, "verdict and callback are one commit")
			answeredBefore[!before.Answered.IsZero()] = true
			if before.Answered.IsZero() {
				require.NoError(t, l.try(t.Context(), l.waiting[call.ID]))
				require.EqualValues(t, 1, notified.Load())
			}
			require.Empty(t, l.waiting)
			event, err := Event(s, call.ID)
			require.NoError(t, err)
			require.Contains(t, string(event.Body), `"status":"VALID"`)
			require.NoError(t, s.Close())
		}
	}
	require.Len(t, answeredBefore, 2, "lost once, and kept once")
}

// TestADamagedCallIsAnError: a record with a flipped bit is reported, not skipped and not guessed at.
func TestADamagedCallIsAnError(t *testing.T) {
	s, err := store.Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	require.NoError(t, s.Commit("u1", func(b *pebble.Batch) error {
		return b.Set(keyOf("r1"), []byte(`{"id":"r1","account":"u1"`+"\xfd"), nil)
	}))
	_, err = Read(s, "r1")
	require.Error(t, err)
	_, err = Open(Config{Store: s})
	require.Error(t, err)
	require.NoError(t, s.Close())
}
