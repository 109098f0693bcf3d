package coordinator

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// brokenLists panics with value at one address.
type brokenLists struct {
	fakeLists
	value any
}

func (l brokenLists) Flags(a engine.Address) engine.Flags {
	if a.Local() == "boom" {
		panic(l.value)
	}
	return l.fakeLists.Flags(a)
}

// TestPanicFailsOnlyItsJob, in whatever part of the job's work it comes.
func TestPanicFailsOnlyItsJob(t *testing.T) {
	for part, broken := range map[string]func(*testEnv, *Config){
		"split": func(_ *testEnv, cfg *Config) {
			cfg.Lists = brokenLists{value: "an address that the lists do not bear"}
		},
		"flight": func(w *testEnv, _ *Config) {
			w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
				if r.Address.Local() == "boom" {
					panic("a row that the prober does not bear")
				}
				return wire.Settled, 0
			}
		},
		"end": func(_ *testEnv, cfg *Config) {
			cfg.OnFinish = func(j *store.Job) []store.Part {
				if j.Rows == 1 && j.State == store.JobCompleted {
					panic("a job that cannot be settled")
				}
				return nil
			}
		},
	} {
		t.Run(part, func(t *testing.T) {
			w := newTestEnv(t, vfs.NewMem(), broken)
			w.run()
			other := w.accept(t, "email\n"+strings.Repeat("ann@shop.example\n", 3))
			j := w.finish(t, w.accept(t, "email\nboom@shop.example\n").ID)
			require.Equal(t, store.JobFailed, j.State)
			require.Equal(t, msgBug, j.Error)
			require.Equal(t, store.JobCompleted, w.finish(t, other.ID).State)
			require.NoError(t, w.close(t))
		})
	}
}

// TestLostStoreEndsTheProcess in the middle of a job: its database keeps its locks, and what it has on disk is unknown.
func TestLostStoreEndsTheProcess(t *testing.T) {
	const child = "PROBITY_TEST_LOST_STORE"
	if os.Getenv(child) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), child+"=1")
		out, err := c.CombinedOutput()
		require.Error(t, err, string(out))
		require.Contains(t, string(out), "panic: state store cannot go on: a sync failed")
		return
	}
	w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv,
		cfg *Config) {
		cfg.Lists = brokenLists{value: store.Lost("a sync failed")}
	})
	w.run()
	w.finish(t, w.accept(t, "email\nboom@shop.example\n").ID)
	require.NoError(t, w.close(t))
}
