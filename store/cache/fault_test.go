package cache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
)

// TestBudgetsOnAFailingDisk: the write of the budgets fails, before or after it took effect. After a crash,
// acknowledged budgets are there; others are the old or the new ones, and never anything else.
func TestBudgetsOnAFailingDisk(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpFileWrite, errorfs.OpFileSyncData} {
		for _, kept := range []int{0, 50, 100} {
			for n := int64(0); n < 4; n++ {
				disk := vfs.NewCrashableMem()
				var armed atomic.Bool
				var left atomic.Int64
				left.Store(n)
				c := open(t, errorfs.Wrap(disk, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if armed.Load() && op.Kind == kind && strings.HasSuffix(op.Path, ".log") && left.Add(-1) < 0 {
						return errorfs.ErrInjected
					}
					return nil
				})))
				require.NoError(t, putBudget(c, 0))
				armed.Store(true)
				told := 0
				for i := 1; i <= 6; i++ {
					if putBudget(c, i) != nil {
						break
					}
					told = i
				}
				require.Less(t, told, 6, "a failure of the disk is never hidden")
				after := open(t, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept,
					RNG: rand.New(rand.NewPCG(uint64(n), uint64(kind)))}))
				b, ok, err := after.Budget("big")
				require.NoError(t, err)
				require.True(t, ok)
				require.Contains(t, []string{fmt.Sprint(told), fmt.Sprint(told + 1)}, string(b),
					"operation %d, %d%% kept", kind, kept)
				require.NoError(t, after.Close())
			}
		}
	}
}

// putBudget writes a number as the budget of a queue. A database that cannot go on panics; that ends the simulated
// process.
func putBudget(c *Cache, n int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			lost, ok := p.(Lost)
			if !ok {
				panic(p)
			}
			err = errors.New(lost.Error())
		}
	}()
	return c.PutBudgets([]Budget{{Name: "big", State: []byte(fmt.Sprint(n)), Until: time.Now().Add(time.Hour)}})
}
