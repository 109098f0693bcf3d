package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/apiclient"
	"probity/prober/wire"
)

const (
	versionsEnv     = "PROBITY_VERSIONS"     // set: the test runs
	olderProgramEnv = "PROBITY_OLDER"        // the older program, for the process within the namespace
	olderTimeout    = 10 * time.Minute       // to build and to verify a short list
	protocolFile    = "prober/wire/hello.go" // where the protocol's number is
)

// TestVersionsOldProber lets a coordinator of this version and older probers verify a list.
func TestVersionsOldProber(t *testing.T) {
	withOlderVersion(t, "p1", "p2")
}

// TestVersionsOldCoordinator lets an older coordinator and probers of this version verify a list.
func TestVersionsOldCoordinator(t *testing.T) {
	withOlderVersion(t, "hub")
}

// withOlderVersion runs a cluster of which some machines have the older program; all rows get their right verdicts.
func withOlderVersion(t *testing.T, older ...string) {
	if os.Getenv(versionsEnv) == "" {
		t.Skip("it builds an older version, which takes a minute and more: make versions")
	}
	if os.Getenv(olderProgramEnv) == "" {
		t.Setenv(olderProgramEnv, buildOlderVersion(t))
	}
	inNetworkNamespaces(t, olderTimeout, func(y *netnsTest) {
		y.programs = map[string]string{}
		for _, machine := range older {
			y.programs[machine] = os.Getenv(olderProgramEnv)
		}
		const rows = 2000
		c := y.openClusterOf(rows, rows/40, 2)
		job := c.upload(y.path("list.csv"))
		c.follow(job, func(apiclient.Job) {})
		y.requireCorrectEnd(c, job, rows)
		for n := range 2 {
			require.Positive(t, y.recipients(n+1), "the prober asked")
		}
		for _, machine := range append(c.probers, c.coordinator) {
			require.Less(t, machine.terminate(), 25*time.Second)
		}
	})
}

// buildOlderVersion builds the commit that began the oldest protocol that this version speaks. Before the first release
// a number had more than one meaning: the last commit that changed the line of the number, and left it there, counts.
func buildOlderVersion(t *testing.T) string {
	root := filepath.Join("..", "..")
	line := fmt.Sprintf("^const Protocol = %d( |$)", max(1, wire.Protocol-1))
	changes, err := exec.Command("git", "-C", root, "log", "--format=%H", "-G"+line, "--", protocolFile).Output()
	require.NoError(t, err, "the Git history is needed")
	hashes := strings.Fields(string(changes))
	last := slices.IndexFunc(hashes, func(hash string) bool {
		content, err := exec.Command("git", "-C", root, "show", hash+":"+protocolFile).Output()
		require.NoError(t, err)
		return regexp.MustCompile("(?m)" + line).Match(content)
	})
	require.GreaterOrEqual(t, last, 0, "no commit began the oldest protocol that this version speaks")
	commit := hashes[last]
	dir := t.TempDir()
	tree, program := filepath.Join(dir, "tree"), filepath.Join(dir, "probity-older")
	require.NoError(t, os.Mkdir(tree, 0o755))
	archive := filepath.Join(dir, "tree.tar")
	for _, line := range [][]string{
		{"git", "-C", root, "archive", "-o", archive, commit},
		{"tar", "-x", "-f", archive, "-C", tree},
	} {
		words, err := exec.Command(line[0], line[1:]...).CombinedOutput()
		require.NoError(t, err, "%v: %s", line, words)
	}
	build := exec.Command("go", "build", "-o", program, "./cmd/probity")
	build.Dir, build.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	words, err := build.CombinedOutput()
	require.NoError(t, err, "%s", words)
	t.Logf("built %s as the older version", commit)
	return program
}
