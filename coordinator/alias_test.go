package coordinator

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
)

// otherLists call every address an alias.
type otherLists struct{ fakeLists }

func (otherLists) Flags(engine.Address) engine.Flags { return engine.FlagAlias }

func TestSetListsTakesEffectAtOnce(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	flags := func() engine.Flags {
		t.Helper()
		a, err := w.c.Single(t.Context(), Request{Email: "info@nx.example"})
		require.NoError(t, err)
		return a.Verdict.Flags
	}
	require.Equal(t, engine.FlagRole, flags())
	w.c.SetLists(otherLists{})
	require.Equal(t, engine.FlagAlias, flags())
	require.NoError(t, w.close(t))
}
