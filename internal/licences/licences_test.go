package licences

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryPartHasItsText: what docs/licences.md lists is named before a text, and our own licence comes first.
func TestEveryPartHasItsText(t *testing.T) {
	var all strings.Builder
	require.NoError(t, Write(&all))
	page, err := os.ReadFile("../../docs/licences.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^\| (\S+) \| (\S+) \| \S+`).FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(rows), 50)
	for _, row := range rows {
		if row[1] != "what" {
			require.Contains(t, all.String(), row[1]+" "+row[2])
		}
	}
	own, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	_, text, _ := strings.Cut(all.String(), "\n\n")
	require.True(t, strings.HasPrefix(text, strings.TrimSpace(string(own))))
	require.Contains(t, all.String(), "the Go standard library")
}
