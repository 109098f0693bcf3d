package coordinator

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// otherTableProber refuses requests with another table than its own, and then gives the resolver its table.
type otherTableProber struct {
	*fakeProber
	table       *engine.Table
	switchTable func()
	asks        int
}

func (p *otherTableProber) Single(ctx context.Context, a wire.SingleRequest) (wire.Answer, error) {
	p.asks++
	if a.Route.Provider.Table() != p.table.Hash() {
		p.switchTable()
		return wire.Answer{}, fmt.Errorf("node p1: %w", wire.ErrOtherTable)
	}
	return p.fakeProber.Single(ctx, a)
}

// A single call during a change of the provider table is routed again with the new table; it does not fail.
func TestSingleIsReroutedOnTableChange(t *testing.T) {
	next, err := engine.DefaultTable().Override([]byte(`retry_schedule = ["2m"]`))
	require.NoError(t, err)
	p := &otherTableProber{table: next}
	w := newTestEnv(t, vfs.NewMem(), func(w *testEnv, c *Config) {
		p.fakeProber, p.switchTable, c.Prober = w.prober, func() { w.dns.table = next }, p
	})
	defer w.close(t)
	a, err := w.c.Single(t.Context(), Request{Email: "a@x.example"})
	require.NoError(t, err)
	require.Equal(t, fakeVerdict(parse(t, "a@x.example")).Reason, a.Verdict.Reason)
	require.Equal(t, 2, p.asks)

	p.table, p.switchTable = engine.DefaultTable(), func() {}
	_, err = w.c.Single(t.Context(), Request{Email: "a@x.example"})
	require.ErrorIs(t, err, wire.ErrOtherTable, "and it ends where the tables never agree")
	require.Equal(t, 2+tableTries, p.asks)
}
