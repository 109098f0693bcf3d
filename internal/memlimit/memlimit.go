package memlimit

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"
)

// The garbage collector works harder above a limit, which keeps memory use flat. Live memory can come near a fixed
// limit or exceed it: each active route takes some kilobytes, each job some megabytes. The collector would then run all
// the time, so the limit moves with the live heap.
const (
	livePercent = 130 // heap in use as a percentage of the live heap, above the lowest limit
	checkEvery  = 100 * time.Millisecond
	leastStep   = 20 // a limit moves by at least 1/leastStep of itself: setting it stops the program for a moment
	maxPercent  = 80 // percentage of the machine's memory, or of the container's limit
)

// Adjust keeps the collector's limit above the live heap until ctx ends. The lowest limit is least for each two
// processors. It does nothing if the environment sets GOMEMLIMIT.
func Adjust(ctx context.Context, least int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	least *= int64(max(1, runtime.GOMAXPROCS(0)/2))
	most := machineMemory(os.ReadFile) / 100 * maxPercent
	limit := limitFor(least, 0, 0, most)
	debug.SetMemoryLimit(limit)
	go func() {
		tick := time.NewTicker(checkEvery)
		defer tick.Stop()
		use := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
			{Name: "/memory/classes/heap/objects:bytes"},
			{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			metrics.Read(use)
			of := func(i int) int64 { return int64(use[i].Value.Uint64()) }
			next := limitFor(least, of(0), of(1)-of(2)-of(3)-of(4), most)
			if next > limit+limit/leastStep || next < limit-limit/leastStep {
				limit = next
				debug.SetMemoryLimit(limit)
			}
		}
	}()
}

// limitFor is the collector's limit for a live heap of live bytes and others bytes outside the heap: mostly stacks,
// which count in the limit and cannot be collected. A most of 0 means unknown.
func limitFor(least, live, others, most int64) int64 {
	limit := max(least, live/100*livePercent+others)
	if most > 0 {
		limit = min(limit, most)
	}
	return limit
}

// machineMemory returns how many bytes this process may use: the memory of the machine, or the lower limit of its
// control group (Linux, cgroup v2 and v1). 0 if unknown.
func machineMemory(read func(string) ([]byte, error)) (most int64) {
	note := func(n int64, err error) {
		if err == nil && n > 0 && (most == 0 || n < most) {
			most = n
		}
	}
	for _, file := range [...]string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := read(file); err == nil {
			note(strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)) // "max" is not a number: no limit
		}
	}
	if text, err := read("/proc/meminfo"); err == nil {
		note(memTotal(text))
	}
	return most
}

// memTotal reads the line "MemTotal: 24630416 kB" of /proc/meminfo; 0 without it.
func memTotal(text []byte) (int64, error) {
	_, rest, found := bytes.Cut(text, []byte("MemTotal:"))
	if !found {
		return 0, nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(line), []byte("kB")))), 10, 64)
	return n << 10, err
}
