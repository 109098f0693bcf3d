package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReceiversWhoseTermsForbidIt: the audit lists them, and is content where they are left alone.
func TestReceiversWhoseTermsForbidIt(t *testing.T) {
	found := func(w *world) map[string]Level {
		levels := map[string]Level{}
		for _, f := range w.audit().Findings {
			if f.Check == "terms" {
				require.Contains(t, f.What, "sendersupport.olc.protection.outlook.com", "the source")
				levels[f.Subject] = f.Level
			}
		}
		return levels
	}
	w := newWorld(t)
	require.Equal(t, map[string]Level{"outlook": OK}, found(w))
	w.cfg.Table = shippedTable()
	require.Equal(t, map[string]Level{"outlook": Warn}, found(w))
}
