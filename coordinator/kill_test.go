package coordinator

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
)

const killSeed = 9 // the seed of the list of the process that is killed

// TestVictim is the process that TestKill kills: it starts or continues the job of its folder.
func TestVictim(t *testing.T) {
	dir := os.Getenv("VICTIM_DIR")
	if dir == "" {
		t.Skip("only as a child of TestKill")
	}
	require.NoError(t, os.Chdir(dir))
	w := newTestEnv(t, vfs.Default)
	w.prober.outcome, w.prober.part = deferSome(200*time.Microsecond), 64
	jobs, _, err := w.c.Jobs("", "", 1, "")
	require.NoError(t, err)
	if len(jobs) == 0 {
		jobs = append(jobs, w.accept(t, testCSV(6000, killSeed)))
	}
	w.run()
	fmt.Println("begun")
	fmt.Println(w.finish(t, jobs[0].ID).ResultSHA)
	require.NoError(t, w.close(t))
}

// TestKill kills a real process with SIGKILL until its job is done, and compares the result with an undisturbed one.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for after := 10 * time.Millisecond; ; after += 25 * time.Millisecond {
		child := exec.Command(os.Args[0], "-test.run=^TestVictim$", "-test.timeout=60s")
		child.Env = append(os.Environ(), "VICTIM_DIR="+dir)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "begun" {
		}
		kill := time.AfterFunc(after, func() { _ = child.Process.Kill() })
		for lines.Scan() {
		}
		kill.Stop()
		if child.Wait() == nil {
			t.Logf("done in a life of %v", after)
			break
		}
	}
	t.Chdir(dir)
	w := newTestEnv(t, vfs.Default)
	defer w.close(t)
	jobs, _, err := w.c.Jobs("", "", 1, "")
	require.NoError(t, err)
	require.True(t, jobs[0].State.Finished())
	checkResults(t, testCSV(6000, killSeed), w.results(t, jobs[0].ID, results.Filter{}))
	require.False(t, strings.Contains(jobs[0].Error, "damaged"))
}
