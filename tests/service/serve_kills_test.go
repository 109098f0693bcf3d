package service_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
	"probity/internal/detector"
	"probity/tests/harness"
)

// make serve-kills sets these; without them a small form runs.
const (
	serveKillsEnv     = "PROBITY_SERVE_KILLS"
	serveKillsRowsEnv = "PROBITY_SERVE_KILLS_ROWS"
)

// The moments of the kills, and what makes a job last longer.
const (
	maxEarlyKill = 200 * time.Millisecond // at most, after the process began: it may not listen yet
	minLife      = 100 * time.Millisecond // once it listens
	maxLife      = 600 * time.Millisecond
	slowReplies  = 10 * time.Millisecond // of receivers with one connection and one row at a time
	killTimeout  = 3 * time.Second       // for each kill and the checks after it
)

// TestServeIsKilledAndItsJobIsExact kills a server with SIGKILL at random moments during one job, and requires that the
// job ends as if nothing had happened: rows, cells, order, ledger, reserved credits and callback exact, and no file
// left that is not the job's.
func TestServeIsKilledAndItsJobIsExact(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("it kills real processes; run without -short")
	}
	kills, rows := numberFrom(t, serveKillsEnv, 3), numberFrom(t, serveKillsRowsEnv, 500)
	lives, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(lives, serviceDeadline+time.Duration(kills)*killTimeout)
	t.Cleanup(cancel)
	p := &serviceEnv{processCtx: lives, ctx: ctx, world: world.New(world.Config{Seed: 1}),
		overrides: filepath.Join(t.TempDir(), "providers.toml"),
		internet:  startInternet(lives, t, "--latency", slowReplies.String())}
	harness.WriteOutput(ctx, t, p.overrides, "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))

	h := newKillLoop(t, p, t.TempDir(), rows)
	quick, slow := h.p, h.p.oneRowAtATime(t)
	h.runJob(t, nil) // without kills: the expected result
	h.rounds++
	h.accepted = false
	h.p = slow
	began := time.Now()
	for n := range kills {
		hit := h.killAtRandom(t)
		require.Less(t, hit, phaseSettled, "the job was over after %d of %d kills: take more rows, or slower receivers",
			n, kills)
		h.killsByPhase[hit]++
	}
	t.Logf("%d kills in %s, they hit: %s", kills, time.Since(began).Round(time.Second), h.killSummary())
	if kills > 50 {
		require.Greater(t, h.killsByPhase[phaseLogSynced], kills/2, "most kills hit a job at work")
	}
	h.p = quick
	s := h.startServer(t)
	require.NoError(t, <-h.uploadList())
	h.requireExactJob(t)
	s.stop(t)
	h.requireNothingLeft(t)
	harness.RequireWithinLimits(t, p.referee(ctx, t))
}

// numberFrom is a number of the environment, or the default.
func numberFrom(t *testing.T, variable string, usual int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, variable)
		require.Positive(t, n, variable)
		usual = n
	}
	t.Logf("%s=%d", variable, usual)
	return usual
}

// oneRowAtATime makes servers probe one row at a time at each receiver.
func (p *serviceEnv) oneRowAtATime(t *testing.T) *serviceEnv {
	text, err := os.ReadFile(p.overrides)
	require.NoError(t, err)
	text = regexp.MustCompile(`(?m)^connections_per_minute`).ReplaceAll(text,
		[]byte("connections = 1\nrecipients_per_transaction = 1\n$0"))
	other := *p
	other.overrides = filepath.Join(t.TempDir(), "slow.toml")
	require.NoError(t, os.WriteFile(other.overrides, text, 0o600))
	return &other
}

// killAtRandom runs the server and kills it at a random moment, one time in four in its first 200 ms. It returns the
// phase that was hit, according to the data folder.
func (h *killLoop) killAtRandom(t *testing.T) phase {
	t.Helper()
	between := func(from, to time.Duration) time.Duration {
		return from + time.Duration(h.random.Int64N(int64(to-from)))
	}
	answered := h.callbacksTaken.Load()
	s := launchServer(t, h.p, h.data, "127.0.1.6")
	if h.random.IntN(4) == 0 {
		<-time.After(between(0, maxEarlyKill))
		s.kill()
	} else {
		s.awaitListening(t)
		h.c.base = s.base
		sent := h.uploadList()
		<-time.After(between(minLife, maxLife))
		s.kill()
		<-sent // even if it failed
	}
	s.requireNoErrors(t)
	hit := h.inspectDeadFolder(t, answered)
	require.NotEmpty(t, hit)
	return hit[len(hit)-1]
}
