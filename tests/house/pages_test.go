package house_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedPackage = regexp.MustCompile("`([a-z/]+)`")
	namedTest    = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
)

// TestPagesNameTests requires that each test named in a table of docs/hostile.md and docs/promises.md is in the package
// named before it.
func TestPagesNameTests(t *testing.T) {
	for name, least := range map[string]int{"hostile.md": 40, "promises.md": 25} {
		page, err := os.ReadFile(filepath.Join("docs", name))
		require.NoError(t, err)
		rows := 0
		for line := range strings.Lines(string(page)) {
			cells := strings.Split(line, "|")
			if first := strings.TrimSpace(cells[min(1, len(cells)-1)]); len(cells) != 5 ||
				strings.Contains(first, "---") || first == "case" || first == "promise" {
				continue
			}
			rows++
			require.NotEmpty(t, strings.TrimSpace(cells[2]), "%s: no bound: %s", name, line)
			requireNamedTests(t, cells[3])
		}
		require.Greater(t, rows, least, "docs/%s is not read as it is written", name)
	}
}

// requireNamedTests looks for the tests of one cell.
func requireNamedTests(t *testing.T, cell string) {
	t.Helper()
	found := 0
	packages := namedPackage.FindAllStringSubmatchIndex(cell, -1)
	for i, at := range packages {
		end := len(cell)
		if i+1 < len(packages) {
			end = packages[i+1][0]
		}
		for _, name := range namedTest.FindAllString(cell[at[1]:end], -1) {
			require.True(t, hasTest(t, cell[at[2]:at[3]], name), "%s has no %s", cell[at[2]:at[3]], name)
			found++
		}
	}
	require.Positive(t, found, "no test: %s", cell)
}

// hasTest reports whether a package has a test of that name.
func hasTest(t *testing.T, pkg, name string) bool {
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(pkg), "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
