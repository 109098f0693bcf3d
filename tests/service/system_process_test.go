package service_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/referee"
	"probity/bench/sim/score"
	"probity/internal/detector"
	"probity/tests/harness"
)

const (
	systemSpeedup  = 36000
	systemRows     = 20_000 // without systemRowsEnv
	systemRowsEnv  = "PROBITY_SYSTEM_ROWS"
	systemDeadline = 10 * time.Minute // of one test with processes
)

// progressFolder is appended to the name of a result file: the folder holds the progress until the result is complete.
const progressFolder = ".progress"

// systemRowsWanted returns how many rows the tests with real processes verify.
func systemRowsWanted(t *testing.T) int {
	text := os.Getenv(systemRowsEnv)
	if text == "" {
		return systemRows
	}
	rows, err := strconv.Atoi(text)
	require.NoError(t, err, systemRowsEnv)
	require.Positive(t, rows, systemRowsEnv)
	return rows
}

// TestSystemOfProcesses verifies a list as a user would, against a simulated internet in a process of its own, and
// compares the result with the truth and the receivers' limits.
func TestSystemOfProcesses(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("it takes two processes and " + strconv.Itoa(systemRows) + " rows; run without -short")
	}
	rows := systemRowsWanted(t)
	t.Run("no latency", func(t *testing.T) { verifyAndJudge(t, rows, "none") })
	t.Run("realistic latency", func(t *testing.T) { verifyAndJudge(t, rows/10, "realistic") })
}

func verifyAndJudge(t *testing.T, rows int, latency string) {
	ctx, cancel := context.WithTimeout(t.Context(), systemDeadline)
	defer cancel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	harness.WriteOutput(ctx, t, at("list.csv"), "sim", "list", "--rows", strconv.Itoa(rows))
	harness.WriteOutput(ctx, t, at("truth.csv"), "sim", "truth", at("list.csv"))
	harness.WriteOutput(ctx, t, at("providers.toml"), "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))
	world := startInternet(ctx, t, "--latency", latency)
	began := time.Now()
	verify := harness.Command(ctx, world.verifyArgs(at("list.csv"), at("result.csv"), at("providers.toml"))...)
	out, err := verify.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%d rows in %s, peak memory %d MB", rows, time.Since(began).Round(time.Millisecond), peakMemory(verify)>>20)
	require.NoDirExists(t, at("result.csv"+progressFolder), "progress outlives the result")

	harness.WriteOutput(ctx, t, at("score.json"), "sim", "score", "--truth", at("truth.csv"), "--result",
		at("result.csv"))
	text, err := os.ReadFile(at("score.json"))
	require.NoError(t, err)
	var s score.Scores
	require.NoError(t, json.Unmarshal(text, &s))
	require.Equal(t, rows, s.Rows)
	harness.RequireScore(t, s)
	harness.RequireWithinLimits(t, world.referee(ctx, t))
}

// peakMemory is the highest resident memory of an ended process, in bytes (Linux gives kilobytes).
func peakMemory(c *exec.Cmd) int64 {
	usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return usage.Maxrss << 10
}

// internet is a simulated internet in a process of its own.
type internet struct{ dns, smtp, url string }

var simServeLine = regexp.MustCompile(`^simulated internet \d+: DNS at (\S+), SMTP at port (\d+), referee at (\S+)$`)

// startInternet starts one on ports that are free. It ends with the test.
func startInternet(ctx context.Context, t *testing.T, args ...string) internet {
	t.Helper()
	c := harness.Command(context.WithoutCancel(ctx),
		append([]string{"sim", "serve", "--dns", "127.0.0.1:0", "--smtp-port=-1", "--http", "127.0.0.1:0",
			"--speedup", strconv.Itoa(systemSpeedup)}, args...)...)
	words, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	lines := bufio.NewScanner(words)
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		for lines.Scan() { // its report at the end
		}
		require.NoError(t, c.Wait(), "sim serve")
	})
	require.True(t, lines.Scan(), "sim serve says nothing: %v", lines.Err())
	found := simServeLine.FindStringSubmatch(lines.Text())
	require.NotNil(t, found, lines.Text())
	return internet{dns: found[1], smtp: found[2], url: found[3]}
}

// verifyArgs is the command line that verifies a list there.
func (w internet) verifyArgs(list, result, overrides string) []string {
	return []string{"verify", list, "-o", result, "--dns", w.dns, "--smtp-port", w.smtp, "--allow-private-targets",
		"--providers", overrides,
		"--mail-from", "probe@prober.example", "--egress", "127.0.0.1=mx.prober.example"}
}

// referee returns what the receivers have seen so far.
func (w internet) referee(ctx context.Context, t *testing.T) (r referee.Report) {
	t.Helper()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(ask)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &r), fmt.Sprintf("%s: %s", w.url, body))
	return r
}
