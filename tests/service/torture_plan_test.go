package service_test

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

// tortureRun is a run: all faults of it follow from the seed.
type tortureRun struct {
	seed     uint64
	duration time.Duration // of all stages
	rows     int           // of a job
	long     bool
}

func newTortureRun(t *testing.T) tortureRun {
	k := tortureRun{seed: uint64(time.Now().UnixNano()), duration: 9 * time.Second, rows: 1000}
	if text := os.Getenv(tortureSeedEnv); text != "" {
		var err error
		k.seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, tortureSeedEnv)
	}
	if text := os.Getenv(tortureTimeEnv); text != "" {
		var err error
		k.duration, err = time.ParseDuration(text)
		require.NoError(t, err, tortureTimeEnv)
		k.long, k.rows = true, 100_000
	}
	if text := os.Getenv(tortureRowsEnv); text != "" {
		var err error
		k.rows, err = strconv.Atoi(text)
		require.NoError(t, err, tortureRowsEnv)
	}
	t.Logf("%s=%d %s=%s %s=%d", tortureSeedEnv, k.seed, tortureTimeEnv, k.duration, tortureRowsEnv, k.rows)
	return k
}

// faultKind is a kind of fault.
type faultKind string

const (
	faultKill          faultKind = "SIGKILL"
	faultStop          faultKind = "SIGSTOP, SIGCONT"
	faultTerm          faultKind = "SIGTERM"
	faultReload        faultKind = "SIGHUP"
	faultLowMemory     faultKind = "SIGKILL, then little memory"
	faultBitFlip       faultKind = "SIGKILL, then a bit of a job's file flips"
	faultFileLost      faultKind = "SIGKILL, then a job's file is gone"
	faultNoDescriptors faultKind = "no descriptors"
	faultDiskFail      faultKind = "a step of the disk fails"
	faultDiskPersist   faultKind = "a step of the disk fails, but persists"
	faultDiskFull      faultKind = "disk full"
	faultDiskSlow      faultKind = "disk slow"
	faultDNS           faultKind = "DNS" // the relay chooses the mode
	faultSMTPHalfOpen  faultKind = "SMTP half open"
	faultSMTPReset     faultKind = "SMTP reset"
	faultSMTPRefused   faultKind = "SMTP refused"
	faultSlowClients   faultKind = "half-open clients"
	faultStreamCut     faultKind = "stream cut"
	faultStreamReset   faultKind = "stream reset"
	faultGossipCut     faultKind = "gossip cut"
	faultNodeCutOff    faultKind = "stream and gossip cut"
)

// fatalFaults are the faults that may end a process. None of them comes in the last part of a stage, so that a process
// survives that part and leaks show.
var fatalFaults = map[faultKind]bool{faultKill: true, faultTerm: true, faultLowMemory: true, faultBitFlip: true,
	faultFileLost: true, faultNoDescriptors: true, faultDiskFail: true,
	faultDiskPersist: true, faultDiskFull: true}

// fault is one of a plan.
type fault struct {
	number   int
	delay    time.Duration // before it
	kind     faultKind
	target   int           // which process, relay or link, by its number
	duration time.Duration // until it is healed
	random   uint64        // for other random choices
}

func (f fault) String() string {
	return fmt.Sprintf("%d: after %s %s at %d for %s (%d)", f.number, f.delay.Round(time.Millisecond), f.kind, f.target,
		f.duration.Round(time.Millisecond), f.random%1000)
}

// drawFault is the n-th fault of a stage: a function of the seed alone. The kinds are drawn by how often they are
// listed.
func drawFault(seed, stage uint64, n int, kinds []faultKind) fault {
	r := rand.New(rand.NewPCG(seed, stage<<32|uint64(n)))
	f := fault{number: n, delay: time.Duration(100+r.IntN(800)) * time.Millisecond, kind: kinds[r.IntN(len(kinds))],
		target:   r.IntN(1 << 16),
		duration: time.Duration(50+r.IntN(1950)) * time.Millisecond, random: r.Uint64()}
	if long := r.IntN(12) == 0; long && (f.kind == faultStop || f.kind == faultStreamCut || f.kind == faultNodeCutOff ||
		f.kind == faultGossipCut) {
		f.duration = time.Duration(10+r.IntN(15)) * time.Second // longer than a stream may be silent
	}
	return f
}

// withoutFatal is a list of kinds without the fatal ones.
func withoutFatal(kinds []faultKind) (rest []faultKind) {
	for _, k := range kinds {
		if !fatalFaults[k] {
			rest = append(rest, k)
		}
	}
	return rest
}

// TestFaultPlanFollowsFromTheSeed: a seed always gives the same faults.
func TestFaultPlanFollowsFromTheSeed(t *testing.T) {
	kinds := []faultKind{faultKill, faultStop, faultDiskFull, faultDNS}
	first, again, other := drawFault(7, 1, 3, kinds), drawFault(7, 1, 3, kinds), drawFault(8, 1, 3, kinds)
	require.Equal(t, first, again)
	require.NotEqual(t, first, other)
	require.Equal(t, []faultKind{faultStop, faultDNS}, withoutFatal(kinds))
}
