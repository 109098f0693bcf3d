package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tortureEnv names the seed and the time; without them a short form runs, with a seed that is printed.
const (
	tortureSeedEnv = "PROBITY_TORTURE_SEED"
	tortureTimeEnv = "PROBITY_TORTURE_TIME"
	tortureRowsEnv = "PROBITY_TORTURE_ROWS"
)

// torment is a run: all faults of it follow from the seed.
type torment struct {
	seed uint64
	time time.Duration // of all stages
	rows int           // of a job
	long bool
}

func newTorment(t *testing.T) torment {
	k := torment{seed: uint64(time.Now().UnixNano()), time: 9 * time.Second, rows: 1000}
	if text := os.Getenv(tortureSeedEnv); text != "" {
		var err error
		k.seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, tortureSeedEnv)
	}
	if text := os.Getenv(tortureTimeEnv); text != "" {
		var err error
		k.time, err = time.ParseDuration(text)
		require.NoError(t, err, tortureTimeEnv)
		k.long, k.rows = true, 100_000
	}
	if text := os.Getenv(tortureRowsEnv); text != "" {
		var err error
		k.rows, err = strconv.Atoi(text)
		require.NoError(t, err, tortureRowsEnv)
	}
	if raceEnabled && !k.long {
		t.Skip("it is short without the watch for data races, where make test runs it; name a time to run it here")
	}
	t.Logf("%s=%d %s=%s %s=%d", tortureSeedEnv, k.seed, tortureTimeEnv, k.time, tortureRowsEnv, k.rows)
	return k
}

// blow is a kind of fault.
type blow string

const (
	blowKill        blow = "SIGKILL"
	blowStop        blow = "SIGSTOP, SIGCONT"
	blowTerm        blow = "SIGTERM"
	blowReload      blow = "SIGHUP"
	blowMemory      blow = "SIGKILL, then little memory"
	blowFlip        blow = "SIGKILL, then a bit of a job's file flips"
	blowLose        blow = "SIGKILL, then a job's file is gone"
	blowFiles       blow = "no descriptors"
	blowDiskFail    blow = "a step of the disk fails"
	blowDiskPersist blow = "a step of the disk fails, but persists"
	blowDiskFull    blow = "disk full"
	blowDiskSlow    blow = "disk slow"
	blowNames       blow = "DNS" // the mode is the relay's
	blowHalfOpen    blow = "SMTP half open"
	blowReset       blow = "SMTP reset"
	blowRefuse      blow = "SMTP refused"
	blowLoris       blow = "half-open clients"
	blowCut         blow = "stream cut"
	blowBreak       blow = "stream reset"
	blowGossip      blow = "gossip cut"
	blowIsland      blow = "stream and gossip cut"
)

// deadly are the blows that may end a process. None of them comes in the last part of a stage, so that a process lives through
// what is left, and leaks can be seen.
var deadly = map[blow]bool{blowKill: true, blowTerm: true, blowMemory: true, blowFlip: true, blowLose: true, blowFiles: true, blowDiskFail: true,
	blowDiskPersist: true, blowDiskFull: true}

// fault is one of a plan.
type fault struct {
	n      int
	rest   time.Duration // before it
	what   blow
	target int           // which process, relay or link, by its number
	lasts  time.Duration // until it is healed
	chance uint64        // what else is left to chance
}

func (f fault) String() string {
	return fmt.Sprintf("%d: after %s %s at %d for %s (%d)", f.n, f.rest.Round(time.Millisecond), f.what, f.target, f.lasts.Round(time.Millisecond), f.chance%1000)
}

// drawFault is the n-th fault of a stage: a function of the seed alone. The kinds are drawn by how often they are listed.
func drawFault(seed, stage uint64, n int, kinds []blow) fault {
	r := rand.New(rand.NewPCG(seed, stage<<32|uint64(n)))
	f := fault{n: n, rest: time.Duration(100+r.IntN(800)) * time.Millisecond, what: kinds[r.IntN(len(kinds))], target: r.IntN(1 << 16),
		lasts: time.Duration(50+r.IntN(1950)) * time.Millisecond, chance: r.Uint64()}
	if long := r.IntN(12) == 0; long && (f.what == blowStop || f.what == blowCut || f.what == blowIsland || f.what == blowGossip) {
		f.lasts = time.Duration(10+r.IntN(15)) * time.Second // longer than a stream may be silent
	}
	return f
}

// gentle is a list of kinds without the deadly ones.
func gentle(kinds []blow) (rest []blow) {
	for _, k := range kinds {
		if !deadly[k] {
			rest = append(rest, k)
		}
	}
	return rest
}

// TestPlanFollowsFromItsSeed: what a seed did, it does again.
func TestPlanFollowsFromItsSeed(t *testing.T) {
	kinds := []blow{blowKill, blowStop, blowDiskFull, blowNames}
	first, again, other := drawFault(7, 1, 3, kinds), drawFault(7, 1, 3, kinds), drawFault(8, 1, 3, kinds)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
	require.Equal(t, []blow{blowStop, blowNames}, gentle(kinds))
}
