package chunks

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
)

func FuzzUnpackChunk(f *testing.F) {
	p := &Builder{}
	p.Add(&Row{Number: 1, Route: &Route{Route: engine.DefaultTable().ImplicitRoute("x.example")},
		Mailbox: "a@x.example"})
	f.Add(p.AppendChunk(nil, p.Rows, rand.New(rand.NewPCG(1, 2))))
	table := engine.DefaultTable()
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = unpack(b, table, func(uint32) bool { return false })
	})
}

func TestChunkRoundTrip(t *testing.T) {
	table := engine.DefaultTable()
	rapid.Check(t, func(t *rapid.T) {
		rowRoutes := []*Route{
			{Route: table.NewRoute([]engine.MX{{Preference: 1, Host: "mx2.x.example"},
				{Preference: 2, Host: "mx1.x.example"}}), Mx: "mx1.x.example mx2.x.example"},
			{Route: table.ImplicitRoute("y.example")},
		}
		suggestions := []string{"", "u@y.example", ""}
		var p Builder
		want := map[uint32]Row{}
		for i := range rapid.IntRange(0, 50).Draw(t, "rows") {
			a := Row{Number: uint32(i * 3), Attempt: rapid.Uint8().Draw(t, "attempt"), Flags: engine.FlagRole,
				Suggestion: suggestions[i%len(suggestions)],
				Route:      rowRoutes[rapid.IntRange(0, 1).Draw(t, "via")], Mailbox: "u@x.example"}
			want[a.Number] = a
			p.Add(&a)
		}
		got, err := unpack(p.AppendChunk(nil, p.Rows, rand.New(rand.NewPCG(1, 2))), table,
			func(row uint32) bool { return row == 0 })
		if err != nil {
			t.Fatal(err)
		}
		if got.Len() != max(0, len(want)-1) {
			t.Fatalf("%d rows, want %d", got.Len(), len(want)-1)
		}
		for i := range got.Len() {
			a := got.RowAt(i)
			w := want[a.Number]
			if a.Route.Key != w.Route.Key || a.Route.Mx != w.Route.Mx || a.Route.Fact != w.Route.Fact ||
				a.Attempt != w.Attempt || a.Suggestion != w.Suggestion || a.Flags != w.Flags || a.Mailbox != w.Mailbox {
				t.Fatalf("row %d: got %+v, want %+v", a.Number, a, w)
			}
		}
	})
}

// TestChunkOfManyRoutes: a chunk may have as many routes as rows.
func TestChunkOfManyRoutes(t *testing.T) {
	table := engine.DefaultTable()
	const rows = 1<<16 + 100
	b := &Builder{}
	for i := range uint32(rows) {
		route := &Route{Route: table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.example", i)}})}
		b.Add(&Row{Number: i, Route: route, Mailbox: "ann@example.org"})
	}
	packed := b.AppendChunk(nil, b.Rows, rand.New(rand.NewPCG(1, 2)))
	read, err := unpack(packed, table, func(uint32) bool { return false })
	require.NoError(t, err)
	require.Equal(t, rows, read.Len())
	for i := range rows {
		row := read.RowAt(i)
		require.Equal(t, []string{fmt.Sprintf("mx%d.example", row.Number)}, row.Route.Hosts)
	}
}
