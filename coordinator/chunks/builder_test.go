package chunks

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/pipeline"
	"probity/prober/wire"
)

// TestSplitRowsMixesRows splits four thousand rows with a run of a thousand bad ones: every row is in one chunk, with
// its own route, and no chunk has much more than its share of the bad ones. Within a chunk rows are shuffled too.
func TestSplitRowsMixesRows(t *testing.T) {
	const mostRows = 256 // of a chunk
	table := engine.DefaultTable()
	p := &Builder{}
	var rowRoutes []*Route
	for i := range 9 {
		rowRoutes = append(rowRoutes, &Route{Route: table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.slow.example",
			i)}})})
	}
	for i := range uint32(4000) {
		p.Add(&Row{Number: i, Route: rowRoutes[i%9], Mailbox: fmt.Sprintf("user%d@d%d.example", i, i%9)})
	}
	seen := map[uint32]bool{}
	for _, cut := range p.SplitRows(mostRows) {
		require.LessOrEqual(t, len(cut), mostRows)
		rows, err := unpack(p.AppendChunk(nil, cut, rand.New(rand.NewPCG(1, 2))), table,
			func(uint32) bool { return false })
		require.NoError(t, err)
		bad, follow := 0, 0
		for i := range rows.Len() {
			a := rows.RowAt(i)
			require.False(t, seen[a.Number])
			seen[a.Number] = true
			require.Equal(t, rowRoutes[a.Number%9].Key, a.Route.Key)
			require.Equal(t, fmt.Sprintf("user%d@d%d.example", a.Number, a.Number%9), a.Mailbox)
			if a.Number >= 1000 && a.Number < 2000 {
				bad++
			}
			if i > 0 && a.Number == rows.Batch[i-1].Number+1 {
				follow++
			}
		}
		require.InDelta(t, 0.25, float64(bad)/float64(len(cut)), 0.2)
		require.Less(t, follow, 10)
	}
	require.Len(t, seen, 4000)
}

// TestFullChunksKeepRoutesTogether: a provider's tenants have a host each, and rows of a tenant in every chunk would
// need a connection for every chunk.
func TestFullChunksKeepRoutesTogether(t *testing.T) {
	const tenants, rows = 1500, 3*wire.MaxRows + 100
	table := engine.DefaultTable()
	p := &Builder{}
	var rowRoutes []*Route
	for i := range tenants {
		rowRoutes = append(rowRoutes, &Route{Route: table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.tenant.example",
			i)}})})
	}
	for i := range uint32(rows) {
		p.Add(&Row{Number: i, Route: rowRoutes[i%tenants], Mailbox: fmt.Sprintf("user%d", i)})
	}
	require.True(t, p.ManyHosts())
	seen, visits := map[uint32]bool{}, 0
	cuts := p.SplitRows(wire.MaxRows)
	for _, cut := range cuts {
		require.LessOrEqual(t, len(cut), wire.MaxRows)
		visited := map[uint32]bool{}
		for _, at := range cut {
			number := binary.LittleEndian.Uint32(p.row(at))
			require.False(t, seen[number])
			seen[number] = true
			visited[p.routeOf(at)] = true
			require.Same(t, rowRoutes[number%tenants], p.routes[p.routeOf(at)])
		}
		visits += len(visited)
	}
	require.Len(t, seen, rows)
	require.Less(t, visits, tenants+len(cuts), "a route is cut where a chunk ends, and nowhere else")
}

// TestFewRoutesAreNotManyHosts: chunks of few routes need not wait for more rows.
func TestFewRoutesAreNotManyHosts(t *testing.T) {
	p := &Builder{}
	rowRoutes := make([]Route, wire.MaxRows/64)
	for i := range uint32(wire.MaxRows) {
		p.Add(&Row{Number: i, Route: &rowRoutes[int(i)%len(rowRoutes)], Mailbox: "user"})
	}
	require.False(t, p.ManyHosts())
}

// TestRowsOfAnyLengthFitAChunk: a row that is longer than a block gets its own block.
func TestRowsOfAnyLengthFitAChunk(t *testing.T) {
	table := engine.DefaultTable()
	v := &Route{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	p := &Builder{}
	var want []string
	for i, n := range []int{0, 1, rowBlockSize - rowHeaderBytes, rowBlockSize, 3 * rowBlockSize, 254, 254, 254, 254,
		254, 254, 254, 254, 254, 12} {
		want = append(want, strings.Repeat(string(rune('a'+i)), n))
		p.Add(&Row{Number: uint32(i), Route: v, Mailbox: want[i]})
	}
	for i, at := range p.Rows {
		require.Equal(t, want[i], string(p.row(at)[rowHeaderBytes:]))
	}
	p.Release()
	require.Empty(t, p.blocks)
}

// TestRowBlocksAreReused reuses the blocks of written rows: each chunk has its own rows.
func TestRowBlocksAreReused(t *testing.T) {
	table := engine.DefaultTable()
	v := &Route{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	var blocks pipeline.Pool[Block]
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		p := &Builder{Pool: &blocks}
		for i := range uint32(1000) {
			p.Add(&Row{Number: i, Route: v, Mailbox: fmt.Sprintf("user%d.%d@x.example", i, round)})
		}
		rows, err := unpack(p.AppendChunk(nil, p.Rows, rng), table, func(uint32) bool { return false })
		require.NoError(t, err)
		p.Release()
		p.Release()
		require.Equal(t, 1000, rows.Len())
		for i := range rows.Len() {
			a := rows.RowAt(i)
			require.Equal(t, fmt.Sprintf("user%d.%d@x.example", a.Number, round), a.Mailbox)
		}
	}
}

// TestChunkWithABadRowIsRefused: wherever the bad row is, no rows of the chunk are returned.
func TestChunkWithABadRowIsRefused(t *testing.T) {
	table := engine.DefaultTable()
	v := &Route{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	for _, n := range []int{1, textRows - 1, textRows, textRows + 1, 2 * textRows} {
		p := &Builder{}
		for i := range n {
			p.Add(&Row{Number: uint32(i), Route: v, Mailbox: "user@x.example"})
		}
		p.Add(&Row{Number: uint32(n), Route: v, Mailbox: "nobody"})
		rows, err := unpack(p.AppendChunk(nil, p.Rows, rand.New(rand.NewPCG(1, 2))), table,
			func(uint32) bool { return false })
		require.ErrorIs(t, err, ErrDamaged)
		require.Nil(t, rows)
	}
}

// BenchmarkChunkBuilder measures a row from its route to the bytes of its chunk.
func BenchmarkChunkBuilder(b *testing.B) {
	const bufferedRows = 8 * wire.MaxRows // before they are split
	rowRoutes := make([]Route, 40)
	rng := rand.New(rand.NewPCG(1, 2))
	var buf []byte
	b.ReportAllocs()
	for left := b.N; left > 0; left -= bufferedRows {
		p := &Builder{}
		for i := range min(left, bufferedRows) {
			p.Add(&Row{Number: uint32(i), Route: &rowRoutes[i%len(rowRoutes)],
				Mailbox: "some.usual.name@of.a.domain.example"})
		}
		for _, cut := range p.SplitRows(wire.MaxRows) {
			buf = p.AppendChunk(buf[:0], cut, rng)
		}
		p.Release()
	}
}
