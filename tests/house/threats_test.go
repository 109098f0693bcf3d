package house_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThreatsPage requires that each test named in docs/security.md exists in a package, and that each attack has one.
func TestThreatsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "security.md"))
	require.NoError(t, err)
	known := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(file string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipOtherModules(file)
		}
		if strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, f := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(text, -1) {
				known[string(f[1])] = true
			}
		}
		return nil
	}))
	_, attacks, _ := strings.Cut(string(page), "## Who attacks")
	rows := 0
	for line := range strings.Lines(attacks) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "who wants what" {
			continue
		}
		rows++
		names := namedTest.FindAllString(cells[3], -1)
		require.NotEmpty(t, names, line)
		for _, name := range names {
			require.True(t, known[name], "no room has %s", name)
		}
	}
	require.Greater(t, rows, 15, "the page is not read as it is written")
}
