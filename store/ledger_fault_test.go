package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"probity/store"
)

// failingFS is a disk whose write-ahead log fails from the n-th operation of a kind on, once armed.
type failingFS struct {
	disk  *vfs.MemFS
	kind  errorfs.OpKind
	left  atomic.Int64
	armed atomic.Bool
	hit   atomic.Bool
}

func (f *failingFS) fs() vfs.FS {
	return errorfs.Wrap(f.disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if f.armed.Load() && op.Kind == f.kind && strings.HasSuffix(op.Path, ".log") && f.left.Add(-1) < 0 {
			f.hit.Store(true)
			return errorfs.ErrInjected
		}
		return nil
	}))
}

// faultSteps are the steps of an account, each of which can be repeated with the same arguments.
func faultSteps(account string) []func(e *storeAdapter) error {
	r := store.Request{Account: account, Endpoint: "single", Key: "k", Digest: store.KeyHash{1}}
	return []func(e *storeAdapter) error{
		func(e *storeAdapter) error {
			_, err := e.GrantCredits(account, store.CreditGrant{ID: "g1", Credits: 100, By: "test"}, noon)
			return err
		},
		func(e *storeAdapter) error { return e.ReserveJob(account, "j1", 50, noon) },
		func(e *storeAdapter) error {
			return e.chargeSingle(account, "r1", 1, noon, store.KeepAnswer(r, store.Answer{Status: 200}, noon))
		},
		func(e *storeAdapter) error {
			return e.Commit(account, store.SettleJob(account, "j1", 20, noon),
				store.ScheduleCallback(account, "j1", noon))
		},
		func(e *storeAdapter) error {
			_, err := e.RecordAttempt("j1", store.Attempt{Number: 1, At: noon},
				store.Outcome{State: store.CallbackPending}, noon)
			return err
		},
		func(e *storeAdapter) error { return e.DisableUser(account, "test", noon) },
		func(e *storeAdapter) error {
			return e.Suppress([]store.Suppression{{Kind: store.SuppressionDomain, Name: "example.com"}}, noon)
		},
		func(e *storeAdapter) error { _, err := e.Secret("links"); return err },
	}
}

// TestFailureOfAnyCommit fails the n-th write or sync of the log, discards the process, and goes on from the disk,
// which has all that was written (failed, but persisted), only what was synced (failed), or a mixture. Repeated from
// the step that failed, the account must reach the same final state.
func TestFailureOfAnyCommit(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		for _, percent := range []int{0, 50, 100} {
			failures := 0
			for n := int64(0); ; n++ {
				if !faultRun(t, kind, percent, n) {
					break
				}
				failures++
			}
			t.Logf("operation %d, %d%% of the unsynced kept: %d failures", kind, percent, failures)
			require.GreaterOrEqual(t, failures, len(faultSteps("")), "each step is a commit")
		}
	}
}

// faultRun runs the steps with one failure, and reports whether the failure happened.
func faultRun(t *testing.T, kind errorfs.OpKind, percent int, n int64) bool {
	disk := &failingFS{disk: vfs.NewCrashableMem(), kind: kind}
	disk.left.Store(n)
	e := openOn(t, disk.fs())
	account := newCustomer(t, e, "ann@example.com", 10)
	disk.armed.Store(true)
	steps := faultSteps(account)
	done := 0
	for done < len(steps) && runStep(e, steps[done]) == nil {
		done++
	}
	hit := disk.hit.Load()
	if hit {
		require.Less(t, done, len(steps), "a failure of the disk is never hidden")
	} else {
		disk.armed.Store(false)
		require.NoError(t, e.Close())
	}
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(uint64(n), uint64(kind)))}
	after := openMem(t, disk.disk.CrashClone(cfg))
	require.NoError(t, after.CheckLedger(account))
	for _, step := range steps[done:] {
		require.NoError(t, step(after), "%d steps done before", done)
	}
	requireFinalState(t, after, account)
	requireFinalState(t, after.Reopen(t), account)
	return hit
}

// runStep runs one step. A store that cannot go on panics with Lost; that ends the simulated process.
func runStep(e *storeAdapter, step func(*storeAdapter) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			lost, ok := p.(store.Lost)
			if !ok {
				panic(p)
			}
			err = lost
		}
	}()
	return step(e)
}

// requireFinalState asserts the state after all faultSteps.
func requireFinalState(t *testing.T, s accountStore, account string) {
	t.Helper()
	requireCredits(t, s, account, 89, 0)
	c, err := s.Callback("j1")
	require.NoError(t, err)
	require.Equal(t, 1, c.Attempts)
	require.Equal(t, noon.Add(5*time.Second), c.Next)
	due, _, err := s.DueCallbacks(noon.Add(time.Hour), store.DueCursor{}, 0)
	require.NoError(t, err)
	require.Len(t, due, 1)
	u, err := s.User(account)
	require.NoError(t, err)
	require.True(t, u.Disabled)
	_, ok := s.SuppressedDomain("example.com", nil)
	require.True(t, ok)
	_, kept, err := s.BeginRequest(store.Request{Account: account, Endpoint: "single", Key: "k",
		Digest: store.KeyHash{1}}, noon)
	require.NoError(t, err)
	require.True(t, kept)
}

// TestSettlementFailure: single calls of several accounts share the write or sync that fails, and none is answered.
// After a restart each is charged and its answer stored, or neither; repeated, each is charged once.
func TestSettlementFailure(t *testing.T) {
	const calls = 20
	seen := map[bool]bool{}
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		for _, percent := range []int{0, 50, 100} {
			disk := &failingFS{disk: vfs.NewCrashableMem(), kind: kind}
			e := openOn(t, disk.fs())
			customers := []string{newCustomer(t, e, "ann@example.com", calls),
				newCustomer(t, e, "bob@example.com", calls)}
			request := func(i int) store.Request {
				return store.Request{Account: customers[i%2], Endpoint: "single", Key: fmt.Sprint("k", i)}
			}
			settle := func(e *storeAdapter, i int) error {
				if i%4 < 2 {
					return e.Settle(customers[i%2], fmt.Sprint("r", i), 1, noon)
				}
				return e.SettleAndKeep(customers[i%2], fmt.Sprint("r", i), 1, request(i), store.Answer{Status: 200},
					noon)
			}
			for i := range calls {
				require.NoError(t, e.ReserveSingle(customers[i%2], fmt.Sprint("r", i), 1))
			}
			disk.armed.Store(true)
			var all sync.WaitGroup
			for i := range calls {
				all.Go(func() { require.Error(t, runStep(e, func(e *storeAdapter) error { return settle(e, i) })) })
			}
			all.Wait()

			cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(1, 2))}
			after := openMem(t, disk.disk.CrashClone(cfg))
			charged := [2]int64{}
			for i := range calls {
				old, err := after.Ledger(customers[i%2], 0, 0)
				require.NoError(t, err)
				is := slices.ContainsFunc(old, func(e store.Entry) bool {
					return e.ID == fmt.Sprintf("single r%d charge", i)
				})
				seen[is] = true
				if is {
					charged[i%2]++
				}
				if i%4 >= 2 {
					_, kept, err := after.BeginRequest(request(i), noon)
					require.NoError(t, err)
					require.Equal(t, is, kept)
					after.EndRequest(request(i))
				}
			}
			for i, customer := range customers {
				requireCredits(t, after, customer, calls-charged[i], 0)
			}
			for i := range calls { // repeated from the start
				require.NoError(t, after.ReserveSingle(customers[i%2], fmt.Sprint("r", i), 1))
				require.NoError(t, settle(after, i))
			}
			for _, customer := range customers {
				requireCredits(t, after, customer, calls/2, 0)
			}
		}
	}
	require.Len(t, seen, 2, "failed, and failed but persisted")
}
