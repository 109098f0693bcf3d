package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// brokenLists panics at one address.
type brokenLists struct{ fakeLists }

func (l brokenLists) Flags(a engine.Address) engine.Flags {
	if a.Local() == "boom" {
		panic("an address that the lists do not bear")
	}
	return l.fakeLists.Flags(a)
}

// TestPanicFailsOnlyItsJob, in whatever part of the job's work it comes.
func TestPanicFailsOnlyItsJob(t *testing.T) {
	for part, broken := range map[string]func(*testEnv, *Config){
		"split": func(_ *testEnv, cfg *Config) { cfg.Lists = brokenLists{} },
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
