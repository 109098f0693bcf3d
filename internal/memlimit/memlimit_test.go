package memlimit

import (
	"io/fs"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// usualLeast is a lowest limit.
const usualLeast = 272 << 20

func TestMemoryLimitFollowsTheLiveHeap(t *testing.T) {
	require.EqualValues(t, usualLeast, limitFor(usualLeast, 0, 0, 0))
	require.EqualValues(t, usualLeast, limitFor(usualLeast, usualLeast/2, 0, 0))
	require.EqualValues(t, 1300<<20, limitFor(usualLeast, 1000<<20, 0, 0))
	require.EqualValues(t, 1400<<20, limitFor(usualLeast, 1000<<20, 100<<20, 0), "stacks leave the heap its room")
	require.EqualValues(t, 800<<20, limitFor(usualLeast, 1000<<20, 100<<20, 800<<20), "never more than the machine has")
	require.EqualValues(t, 100<<20, limitFor(usualLeast, 0, 0, 100<<20))
}

func TestMachineMemory(t *testing.T) {
	const total = "MemTotal:       24630416 kB\nMemFree:        1 kB\n"
	for want, files := range map[int64]map[string]string{
		24630416 << 10: {"/proc/meminfo": total, "/sys/fs/cgroup/memory.max": "max\n"},
		512 << 20:      {"/proc/meminfo": total, "/sys/fs/cgroup/memory.max": "536870912\n"},
		256 << 20:      {"/proc/meminfo": total, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n"},
		0:              {"/proc/meminfo": "MemTotal: many\n"},
	} {
		require.Equal(t, want, machineMemory(func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}), files)
	}
}

// TestMemoryLimitIsAdjustedUntilTheContextEnds: the limit is set at once, moves if least is below the live heap, and
// does not change with GOMEMLIMIT or after the end.
func TestMemoryLimitIsAdjustedUntilTheContextEnds(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("GOMEMLIMIT", "off")
		Adjust(t.Context(), 1<<20)
		require.Equal(t, before, debug.SetMemoryLimit(-1))
		t.Setenv("GOMEMLIMIT", "")
		Adjust(t.Context(), 400<<20)
		require.GreaterOrEqual(t, debug.SetMemoryLimit(-1), int64(400<<20))
		Adjust(t.Context(), 1) // less than the live heap
		time.Sleep(2 * checkEvery)
		synctest.Wait()
		require.Greater(t, debug.SetMemoryLimit(-1), int64(1<<20))
	})
}
