package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/cluster"
	"probity/engine"
	"probity/prober/wire"
)

// membershipOf is that of so many nodes with four identities each.
func membershipOf(nodes int) *membership {
	var names []string
	view := &cluster.View{}
	for n := range nodes {
		name := fmt.Sprintf("p%d", n)
		names = append(names, name)
		for i := range 4 {
			id := cluster.Identity{Name: fmt.Sprintf("mx%d-%d.example", n, i)}
			view.Shares = append(view.Shares, cluster.Share{Identity: id, Node: name, Usable: true})
		}
	}
	return newMembership(view, membersOf(names...), nil, testNow)
}

// splitterOf is a splitter of a batch that suppresses nothing.
func splitterOf(r *membership, b *wire.Batch) *batchSplitter {
	f := &Fleet{usage: clusterUsage{routes: routeUsage{}}}
	f.cfg.Suppressed = func(string, []string) bool { return false }
	f.cfg.SuppressedAddress = func(engine.Address) bool { return false }
	return &batchSplitter{f: f, b: b, r: r, now: testNow, parts: map[*member]*part{}}
}

// TestNodeGetsOnePart: a node gets its rows of a batch in one part, whichever of its identities must ask them, and each
// row names its own. A row that an identity without a share was to ask is a first contact.
func TestNodeGetsOnePart(t *testing.T) {
	r := membershipOf(3)
	gmail := routeTo("gmail-smtp-in.l.google.com")
	for _, pinned := range [][]string{nil, {"mx1-2.example"}, {"gone.example"}} {
		batch := &wire.Batch{Job: "j", Class: "tail", Egress: pinned}
		for i := range 600 {
			address := addressAt(t, fmt.Sprintf("ann%d@gmail.com", i))
			row := wire.Row{Number: uint32(i), Attempt: 2, Route: gmail, Address: address}
			if i%2 == 0 {
				row.Route = routeTo(fmt.Sprintf("mx%d.example.org", i))
				row.Address = addressAt(t, fmt.Sprintf("ann@d%d.example.org", i))
			}
			batch.Rows = append(batch.Rows, row)
		}
		s := splitterOf(r, batch)
		for i := range batch.Rows {
			s.assign(&batch.Rows[i])
		}
		require.Empty(t, s.returned)
		require.Len(t, s.all, 3)
		rows := 0
		for _, p := range s.all {
			require.Equal(t, "tail#j", p.batch.Class)
			rows += len(p.batch.Rows)
			for i := range p.batch.Rows {
				row := &p.batch.Rows[i]
				key, narrow := keyOf(row.Route, row.Address)
				o := r.ownerOf(key, narrow, row.Route.Provider, batch.EgressOf(&batch.Rows[row.Number]), testNow)
				require.Equal(t, o.identity, p.batch.EgressOf(row))
				require.Equal(t, o.identity, p.identityOf(row.Number))
				require.Same(t, o.node, p.node)
				require.Equal(t, pinned == nil || slices.Contains(pinned, o.identity), row.Attempt == 2)
			}
		}
		require.Equal(t, 600, rows)
	}
}
