package main

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

// The garbage collector works harder from a limit on, so that what is in use stays flat. What must be alive can come near a fixed limit,
// or above it: each route that is being asked takes some kilobytes, each list some megabytes. The collector would then run without end
// (50,000 routes: twice the processor time), so that the limit moves with what is alive.
const (
	memoryLivePercent = 130 // per cent of what is alive that may be in use of the heap, where all is more than the least limit
	memoryCheckEvery  = 100 * time.Millisecond
	memoryStep        = 20 // a limit moves by at least a part in so many of itself: setting it stops the program for a moment
	memoryMaxPercent  = 80 // per cent of the machine's memory, or of what the container may use
)

// adjustMemoryLimit keeps the collector's limit above what is alive until ctx ends. The lowest limit is least for each two processors. A
// GOMEMLIMIT in the environment is obeyed instead.
func adjustMemoryLimit(ctx context.Context, least int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	least *= int64(max(1, runtime.GOMAXPROCS(0)/2))
	most := machineMemory(os.ReadFile) / 100 * memoryMaxPercent
	limit := memoryLimit(least, 0, 0, most)
	debug.SetMemoryLimit(limit)
	go func() {
		tick := time.NewTicker(memoryCheckEvery)
		defer tick.Stop()
		use := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
			{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			metrics.Read(use)
			of := func(i int) int64 { return int64(use[i].Value.Uint64()) }
			next := memoryLimit(least, of(0), of(1)-of(2)-of(3)-of(4), most)
			if next > limit+limit/memoryStep || next < limit-limit/memoryStep {
				limit = next
				debug.SetMemoryLimit(limit)
			}
		}
	}()
}

// memoryLimit is the collector's limit while so many bytes of the heap are alive, and so many are in use outside it: stacks above
// all, which count in the limit and cannot be collected. A most of 0 is not known.
func memoryLimit(least, live, others, most int64) int64 {
	limit := max(least, live/100*memoryLivePercent+others)
	if most > 0 {
		limit = min(limit, most)
	}
	return limit
}

// machineMemory is how many bytes this process may use: those of the machine, or of its control group where these are fewer (Linux,
// cgroup v2 and v1). 0 where nothing says so.
func machineMemory(read func(string) ([]byte, error)) (most int64) {
	note := func(n int64, err error) {
		if err == nil && n > 0 && (most == 0 || n < most) {
			most = n
		}
	}
	for _, file := range [...]string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if text, err := read(file); err == nil {
			note(strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)) // "max" is no number, and no limit
		}
	}
	if text, err := read("/proc/meminfo"); err == nil {
		note(memTotal(text))
	}
	return most
}

// memTotal reads the line "MemTotal: 24630416 kB" of /proc/meminfo; 0 without one.
func memTotal(text []byte) (int64, error) {
	_, rest, found := bytes.Cut(text, []byte("MemTotal:"))
	if !found {
		return 0, nil
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(line), []byte("kB")))), 10, 64)
	return n << 10, err
}
