package service_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/persona"
	"probity/bench/sim/world"
	"probity/coordinator"
	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

const (
	killRows    = 20_000
	killCount   = 3
	killSeedEnv = "PROBITY_KILL_SEED"
)

// TestKillAndGoOn kills the process that verifies a list with SIGKILL at three random moments, runs the same command
// again each time, and requires the result of a run without a kill. A recording proxy before the mail servers checks
// that it never probes a row again that its progress folder had when it was killed.
func TestKillAndGoOn(t *testing.T) {
	detector.Spare(t)
	if testing.Short() {
		t.Skip("it verifies " + strconv.Itoa(killRows) + " rows twice, in real processes; run without -short")
	}
	random := rand.New(rand.NewPCG(killSeed(t), 0))
	k := newKillTest(t)
	ctx, cancel := context.WithTimeout(t.Context(), systemDeadline)
	defer cancel()

	uninterrupted, recipients := k.runUninterrupted(ctx, t)
	internet := startInternet(ctx, t)
	result := k.path("killed.csv")
	answered := map[string]bool{}
	for range killCount {
		goal := 1 + random.IntN(recipients/(killCount+1))
		w := newRecordingProxy(t, goal)
		k.kill(ctx, t, w, internet.verifyArgs(k.list, result, k.overrides))
		requireNotAskedAgain(t, w, answered)
		answered = k.answeredAddresses(t, result+progressFolder)
		t.Logf("killed after %d recipients of %d: %d addresses are answered", w.total, recipients, len(answered))
		require.NoFileExists(t, result)
	}
	w := newRecordingProxy(t, 0)
	k.runToEnd(ctx, t, w, internet.verifyArgs(k.list, result, k.overrides))
	requireNotAskedAgain(t, w, answered)
	t.Logf("then %d recipients to the end", w.total)

	after, err := os.ReadFile(result)
	require.NoError(t, err)
	requireSameRows(t, uninterrupted, after)
	harness.RequireWithinLimits(t, internet.referee(ctx, t))
}

// killSeed determines the moments; the environment repeats a run.
func killSeed(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(killSeedEnv); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, killSeedEnv)
	}
	t.Logf("%s=%d", killSeedEnv, seed)
	return seed
}

// killTest has the paths of the list, the overrides and the results.
type killTest struct {
	dir, list, overrides string
}

func newKillTest(t *testing.T) *killTest {
	k := &killTest{dir: t.TempDir()}
	k.list, k.overrides = k.path("list.csv"), k.path("providers.toml")
	require.NoError(t, os.WriteFile(k.list, deterministicList(t), 0o600))
	var toml bytes.Buffer
	require.NoError(t, sim.WriteProviders(&toml, systemSpeedup))
	// Providers that require TLS are probed without it, since the recording proxy cannot offer it.
	text := regexp.MustCompile(`(?m)^id = .*$`).ReplaceAllString(toml.String(), "$0\ntls = \"opportunistic\"")
	require.NoError(t, os.WriteFile(k.overrides, []byte(text), 0o600))
	return k
}

func (k *killTest) path(name string) string { return filepath.Join(k.dir, name) }

// deterministicList leaves out the rows of servers that close connections: which rows are affected depends on the other
// rows of the connection, and the truth allows either answer.
func deterministicList(t *testing.T) []byte {
	w := world.New(world.Config{Seed: 1})
	var out bytes.Buffer
	keep := csv.NewWriter(&out)
	column := -1
	harness.EachRow(t, w, killRows, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
		} else if slices.Contains(w.Truth(cells[column]),
			persona.Outcome{Status: "UNKNOWN", Reason: "connection_failed"}) {
			return true
		}
		require.NoError(t, keep.Write(cells))
		return true
	})
	keep.Flush()
	return out.Bytes()
}

// runUninterrupted returns the result of one run to the end, and its number of recipients.
func (k *killTest) runUninterrupted(ctx context.Context, t *testing.T) (result []byte, recipients int) {
	internet, w := startInternet(ctx, t), newRecordingProxy(t, 0)
	k.runToEnd(ctx, t, w, internet.verifyArgs(k.list, k.path("undisturbed.csv"), k.overrides))
	result, err := os.ReadFile(k.path("undisturbed.csv"))
	require.NoError(t, err)
	requireAnswered(t, result)
	require.GreaterOrEqual(t, int64(w.total), internet.referee(ctx, t).Recipients, "the witness missed recipients")
	return result, w.total
}

func (k *killTest) runToEnd(ctx context.Context, t *testing.T, w *recordingProxy, args []string) {
	t.Helper()
	out, err := harness.Command(ctx, append(args, "--socks5", w.addr())...).CombinedOutput()
	w.close()
	require.NoError(t, err, "%s", out)
}

// kill lets the process live until the recording proxy has seen enough recipients.
func (k *killTest) kill(ctx context.Context, t *testing.T, w *recordingProxy, args []string) {
	t.Helper()
	_, err := k.signalAtLimit(ctx, t, os.Kill, w, args)
	require.ErrorContains(t, err, "killed")
}

// signalAtLimit sends a process a signal once the recording proxy has seen enough recipients, and returns its output
// and how it ended.
func (k *killTest) signalAtLimit(ctx context.Context, t *testing.T, with os.Signal, w *recordingProxy,
	args []string) (string, error) {
	t.Helper()
	var words bytes.Buffer
	c := harness.Command(ctx, append(args, "--socks5", w.addr())...)
	c.Stdout, c.Stderr = &words, &words
	require.NoError(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	var err error
	select {
	case <-w.reached:
		require.NoError(t, c.Process.Signal(with))
		err = <-ended
	case err := <-ended:
		require.Fail(t, "the process ended before its signal", "%v: %s", err, &words)
	}
	w.close()
	return words.String(), err
}

// answeredAddresses reads from a copy of a dead process's folder which addresses had answers. The folder itself is not
// touched.
func (k *killTest) answeredAddresses(t *testing.T, folder string) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(folder)))
	s, err := store.Open(vfs.Default, filepath.Join(dir, "state"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	domains, err := lists.Default()
	require.NoError(t, err)
	c := coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: dir, Table: engine.DefaultTable(),
		Lists: domains})
	jobs, _, err := c.Jobs("", "", 1, "")
	require.NoError(t, err)
	require.NotEmpty(t, jobs, "mail servers were asked before the list was safe")
	var known bytes.Buffer
	require.NoError(t, c.Results(t.Context(), jobs[0].ID, results.Filter{Partial: true}, &known))
	return addressesWithStatus(t, known.Bytes())
}

// addressesWithStatus are the folded addresses of a result's rows that have one.
func addressesWithStatus(t *testing.T, result []byte) map[string]bool {
	t.Helper()
	rows := rowsOf(t, result)
	email, status := slices.Index(rows[0], "email"), slices.Index(rows[0], "verify_status")
	known := map[string]bool{}
	for _, row := range rows[1:] {
		if a, err := engine.ParseTrimmed(row[email]); err == nil && row[status] != "" {
			known[a.Folded()] = true
		}
	}
	return known
}

// requireNotAskedAgain requires that a run probed no recipient that an earlier run had answered.
func requireNotAskedAgain(t *testing.T, w *recordingProxy, answered map[string]bool) {
	t.Helper()
	for recipient := range w.recipients {
		a, err := engine.Parse(recipient)
		require.NoError(t, err, recipient)
		require.NotContains(t, answered, a.Folded(), "answered before the process was killed, and asked again")
	}
}

// requireAnswered requires a status in every row that has an address.
func requireAnswered(t *testing.T, result []byte) {
	t.Helper()
	rows := rowsOf(t, result)
	email, status := slices.Index(rows[0], "email"), slices.Index(rows[0], "verify_status")
	for _, row := range rows[1:] {
		require.Equal(t, strings.TrimSpace(row[email]) == "", row[status] == "", row)
	}
}

// What differs between two runs of a list: the last two columns, and the score, which depends on the time and the
// connection of a domain's catch-all check.
var (
	lastTwoColumns = regexp.MustCompile(`,(true|false),\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(\r?\n|$)`)
	scored         = regexp.MustCompile(`,(VALID|RISKY|INVALID|UNKNOWN),\d+,`)
)

// requireSameRows compares two results byte by byte, except time of verification, from_cache and score.
func requireSameRows(t *testing.T, want, got []byte) {
	t.Helper()
	lines := func(result []byte) [][]byte {
		result = scored.ReplaceAll(lastTwoColumns.ReplaceAll(result, []byte(",,$2")), []byte(",$1,,"))
		return bytes.SplitAfter(result, []byte("\n"))
	}
	wanted, found := lines(want), lines(got)
	require.Len(t, found, len(wanted), "lines")
	for i := range wanted {
		require.Equal(t, string(wanted[i]), string(found[i]), "line %d", i+1)
	}
}
