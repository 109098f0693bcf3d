package buildinfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	commit = "5f99cba3b0f1f0c09ad5dd7d32aa64a5de94441a"
	date   = "2026-11-27T18:15:19Z"
)

func checkout(version string) debug.BuildInfo {
	return debug.BuildInfo{Main: debug.Module{Version: version},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: date}}}
}

func TestBuildIsKnown(t *testing.T) {
	const untagged = "v0.0.0-20261127181519-5f99cba3b0f1"
	inCheckout := placeholder + "x$"
	for name, c := range map[string]struct {
		file    string
		stamped debug.BuildInfo
		want    Build
	}{
		"a checkout":                 {inCheckout, checkout(untagged), Build{untagged, commit, date}},
		"a checkout without version": {inCheckout, checkout("(devel)"), Build{untagged, commit, date}},
		"a changed checkout": {inCheckout, checkout(untagged + "+dirty"),
			Build{untagged + "+dirty", commit, date}},
		"a published version": {inCheckout, debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}},
			Build{"v1.2.3", "", ""}},
		"a published commit": {inCheckout, debug.BuildInfo{Main: debug.Module{Version: untagged}},
			Build{untagged, commit[:12], date}},
		"nothing is known": {inCheckout, debug.BuildInfo{}, Build{"devel", "", ""}},
		"an archive": {" " + commit + " 2026-11-27T20:15:19+02:00\n", debug.BuildInfo{},
			Build{untagged, commit, date}},
		"an archive in another repository": {"v1.2.3 " + commit + " " + date, checkout("v9.0.0"),
			Build{"v1.2.3", commit, date}},
		"an archive after a tag": {"v1.2.3-4-g5f99cba " + commit + " " + date, debug.BuildInfo{},
			Build{"v1.2.4-0.20261127181519-5f99cba3b0f1", commit, date}},
		"a version alone": {"v1.2.3-ours\n", debug.BuildInfo{}, Build{"v1.2.3-ours", "", ""}},
		"an empty file":   {"", checkout("v9.0.0"), Build{"devel", "", ""}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, describe(c.file, c.stamped)) })
	}
}

// TestArchiveSaysItsCommit: git archive writes the file VERSION by .gitattributes.
func TestArchiveSaysItsCommit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	for _, file := range []string{"../../.gitattributes", "VERSION"} {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o600))
	}
	run := func(args ...string) string {
		t.Helper()
		c := exec.Command(git, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_DATE="+date,
			"GIT_COMMITTER_DATE="+date, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@a.example", "GIT_COMMITTER_NAME=a",
			"GIT_COMMITTER_EMAIL=a@a.example")
		words, err := c.CombinedOutput()
		require.NoError(t, err, "%s", words)
		return string(words)
	}
	run("init", "-q")
	run("add", ".")
	run("commit", "-q", "-m", "x")
	head := strings.TrimSpace(run("rev-parse", "HEAD"))
	exportedFile := func() string {
		run("archive", "-o", "a.tar", "HEAD")
		words, err := exec.Command("tar", "-xOf", filepath.Join(dir, "a.tar"), "VERSION").Output()
		require.NoError(t, err)
		return string(words)
	}
	require.Equal(t, Build{"v0.0.0-20261127181519-" + head[:12], head, date},
		describe(exportedFile(), debug.BuildInfo{}))
	run("tag", "v1.0.0")
	require.Equal(t, Build{"v1.0.0", head, date}, describe(exportedFile(), debug.BuildInfo{}))
}

func FuzzVersionFile(f *testing.F) {
	f.Add("v1.2.3-4-g5f99cba " + commit + " " + date)
	f.Add("a b c d")
	f.Fuzz(func(t *testing.T, file string) {
		b := describe(file, debug.BuildInfo{})
		require.NotEmpty(t, b.Version)
		require.Len(t, strings.Fields(b.Version), 1)
	})
}
