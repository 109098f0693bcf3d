package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestTermsFindings: the audit lists them, and is content where they are left alone.
func TestTermsFindings(t *testing.T) {
	found := func(w *fakeInternet) map[string]Severity {
		severities := map[string]Severity{}
		for _, f := range w.audit().Findings {
			if f.Check == "terms" {
				require.Contains(t, f.Message, "sendersupport.olc.protection.outlook.com", "the source")
				severities[f.Subject] = f.Severity
			}
		}
		return severities
	}
	w := newFakeInternet(t)
	require.Equal(t, map[string]Severity{"outlook": OK}, found(w))
	w.cfg.Table = engine.DefaultTable()
	require.Equal(t, map[string]Severity{"outlook": Warn}, found(w))
}
