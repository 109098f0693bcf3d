package store

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"probity/internal/wholefile"
	"probity/store/diskroom"
)

// TestAFullDiskRefusesCommitsAndNothingElse: the commit that meets the full disk waits, those after it are refused, and
// reads go on. With room again the waiting one is durable.
func TestAFullDiskRefusesCommitsAndNothingElse(t *testing.T) {
	for _, wrong := range []error{syscall.ENOSPC, syscall.EROFS} {
		synctest.Test(t, func(t *testing.T) { fillUnderStore(t, wrong) })
	}
}

func fillUnderStore(t *testing.T, wrong error) {
	disk := vfs.NewCrashableMem()
	var full atomic.Bool
	failing := errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpRename, errorfs.OpReuseForWrite:
			if full.Load() {
				return wrong
			}
		}
		return nil
	}))
	require.NoError(t, disk.MkdirAll("data", 0o700))
	require.NoError(t, wholefile.SyncDir(disk, ""))
	room := diskroom.New(failing, "data", nil)
	room.MakeBallast()
	s, err := Open(room.State(), "data/state")
	require.NoError(t, err)
	accept := func(id string) error {
		return s.AcceptJob(&Job{ID: id, Account: "a", State: JobQueued, CreatedAt: time.Now()})
	}
	require.NoError(t, accept("before"))
	ann := addCustomer(t, s, "ann@example.com", 2)
	require.NoError(t, s.ReserveSingle(ann, "released", 1))
	require.NoError(t, s.ReserveSingle(ann, "charged later", 1))

	full.Store(true)
	waiting := make(chan error, 1)
	go func() { waiting <- accept("waiting") }()
	time.Sleep(time.Minute)
	synctest.Wait()
	require.Empty(t, waiting)
	require.ErrorIs(t, accept("refused"), syscall.ENOSPC)
	require.NotErrorIs(t, s.Full(), ErrBroken)
	require.ErrorIs(t, s.ReserveSingle("a", s.NewRequest(), 1), syscall.ENOSPC)
	require.NoError(t, s.SettleSingle(ann, "released", 0, time.Now()), "the end of a reservation needs no room")
	require.ErrorIs(t, s.SettleSingle(ann, "charged later", 1, time.Now()), syscall.ENOSPC)
	require.EqualValues(t, 1, s.ReservedBySingles(ann))
	_, err = s.Job("before")
	require.NoError(t, err)
	_, err = s.Credits("a")
	require.NoError(t, err)
	jobs, _, err := s.JobsOf("a", "", 10, "")
	require.NoError(t, err)
	require.NotEmpty(t, jobs)

	full.Store(false)
	require.NoError(t, <-waiting)
	require.NoError(t, s.SettleSingle(ann, "charged later", 1, time.Now()))
	after, err := OpenAtRest(disk.CrashClone(vfs.CrashCloneCfg{}), "data/state")
	require.NoError(t, err)
	for id, there := range map[string]error{"before": nil, "waiting": nil, "refused": ErrNotFound} {
		_, err := after.Job(id)
		require.ErrorIs(t, err, there, id)
	}
	c, err := after.Credits(ann)
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Balance)
	require.NoError(t, after.Close())
	require.NoError(t, s.Close())
}
