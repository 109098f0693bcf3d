package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestReferenceExamplesAreValid holds that every example of the provider table's documentation is a good file without
// warnings.
func TestReferenceExamplesAreValid(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "providers.md"))
	require.NoError(t, err)
	examples := strings.Split(string(text), "```toml\n")[1:]
	require.NotEmpty(t, examples)
	for _, e := range examples {
		e, _, _ = strings.Cut(e, "```")
		table, remarks := CheckProviders(engine.DefaultTable(), []byte(e))
		require.NotNil(t, table, "%+v", remarks)
		require.Empty(t, remarks)
	}
	for _, p := range engine.DefaultTable().Providers {
		if p.TermsForbid {
			require.Contains(t, string(text), "(`"+p.ID+"`) | forbid", "the receivers whose terms forbid it are listed")
		}
	}
	for _, l := range NamedLimits(engine.DefaultTable().Unknown.Limits) {
		require.Contains(t, examples[len(examples)-1], l.Key)
	}
}
