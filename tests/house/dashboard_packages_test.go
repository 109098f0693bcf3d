package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailedFetchOfPackagesShowsWhatNpmSaid runs the script that fetches the dashboard's packages with an npm that
// fails.
func TestFailedFetchOfPackagesShowsWhatNpmSaid(t *testing.T) {
	script, err := filepath.Abs("api/web/node.sh")
	require.NoError(t, err)
	dir := t.TempDir()
	npm := "#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o700))
	c := exec.CommandContext(t.Context(), "sh", "-c", `. "$0"; packages || echo "$why" >&2`, script)
	c.Dir, c.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TMPDIR="+dir)
	said, err := c.CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "web: fetching the packages of the dashboard with npm; this can take a minute\nweb: the last lines of npm:\n"+
		"npm error code ENOTFOUND\nnpm could not fetch its packages\n", string(said))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing but npm is left")
}
