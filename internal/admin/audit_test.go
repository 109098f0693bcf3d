package admin

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// TestAuditActionNamesMatchTheAPI compares the actions that the command line knows with those that the program writes,
// and with the API description.
func TestAuditActionNamesMatchTheAPI(t *testing.T) {
	written := map[string]bool{}
	literal := regexp.MustCompile(`\bAction: "([^"]+)"`)
	for _, room := range []string{"../../api", "../../store", "../../coordinator", "."} {
		require.NoError(t, fs.WalkDir(os.DirFS(room), ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := fs.ReadFile(os.DirFS(room), path)
			for _, m := range literal.FindAllSubmatch(source, -1) {
				written[string(m[1])] = true
			}
			return err
		}))
	}
	page, err := os.ReadFile("../../api/openapi.yaml")
	require.NoError(t, err)
	page = bytes.Join(bytes.Fields(page), []byte(" "))
	examples := "action: type: string examples: [" + strings.Join(store.AuditActions(), ", ") + "]"
	require.True(t, strings.Contains(string(page), examples), "the description lacks %q", examples)
	for _, name := range store.AuditActions() {
		require.True(t, written[name], name)
		delete(written, name)
	}
	require.Empty(t, written, "written and not named")
}

// TestEmptyAuditResultIsExplained filters for events that are not in the log: a message says so, and the exit status is
// 0 for a valid filter.
func TestEmptyAuditResultIsExplained(t *testing.T) {
	for _, row := range []struct {
		args   []string
		status int
		words  string
	}{
		{[]string{"--action", "erase"}, 0, `no entry of the audit log matches --action "erase"; leave that out to see all`},
		{[]string{"--action", "grant", "--by", "Zoe"}, 0, `matches --action "grant" --by "Zoe"; leave`},
		{[]string{"--action", "nonsense"}, 2, `--action "nonsense": the log has no such action; give one of sign in, `},
		{[]string{"--limit", "0"}, 2, "--limit: give how many entries to show, 1 or more"},
		{[]string{"--limit=-3"}, 2, "--limit: give how many"},
	} {
		w := &adminTest{t: t, targetArgs: []string{"--data", t.TempDir()}}
		w.run(0, "user", "add", "root@example.com", "--role", "admin")
		_, words := w.run(row.status, append([]string{"audit"}, row.args...)...)
		require.Contains(t, words, row.words, "%v", row.args)
	}
}
