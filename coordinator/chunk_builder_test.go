package coordinator

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

// TestSplitRowsMixesRows splits four thousand rows with a run of a thousand bad ones: every row is in one chunk, with its own
// route, and no chunk has much more than its share of the bad ones. Within a chunk rows are shuffled too.
func TestSplitRowsMixesRows(t *testing.T) {
	table := engine.DefaultTable()
	p := &chunkBuilder{}
	var rowRoutes []*rowRoute
	for i := range 9 {
		rowRoutes = append(rowRoutes, &rowRoute{Route: table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.slow.example", i)}})})
	}
	for i := range uint32(4000) {
		p.add(&chunkRow{Number: i, Route: rowRoutes[i%9], Mailbox: fmt.Sprintf("user%d@d%d.example", i, i%9)})
	}
	seen := map[uint32]bool{}
	for _, cut := range p.splitRows(minChunkRows) {
		require.LessOrEqual(t, len(cut), minChunkRows)
		rows, err := unpackChunk(p.appendChunk(nil, cut, rand.New(rand.NewPCG(1, 2))), table, func(uint32) bool { return false })
		require.NoError(t, err)
		bad, follow := 0, 0
		for i := range rows.len() {
			a := rows.rowAt(i)
			require.False(t, seen[a.Number])
			seen[a.Number] = true
			require.Equal(t, rowRoutes[a.Number%9].Key, a.Route.Key)
			require.Equal(t, fmt.Sprintf("user%d@d%d.example", a.Number, a.Number%9), a.Mailbox)
			if a.Number >= 1000 && a.Number < 2000 {
				bad++
			}
			if i > 0 && a.Number == rows.batch[i-1].Number+1 {
				follow++
			}
		}
		require.InDelta(t, 0.25, float64(bad)/float64(len(cut)), 0.2)
		require.Less(t, follow, 10)
	}
	require.Len(t, seen, 4000)
}

// TestFullChunksKeepRoutesTogether: a provider's tenants have a host each, and rows of a tenant in every chunk would need a
// connection for every chunk.
func TestFullChunksKeepRoutesTogether(t *testing.T) {
	const tenants, rows = 1500, 3*wire.MaxRows + 100
	table := engine.DefaultTable()
	p := &chunkBuilder{}
	var rowRoutes []*rowRoute
	for i := range tenants {
		rowRoutes = append(rowRoutes, &rowRoute{Route: table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.tenant.example", i)}})})
	}
	for i := range uint32(rows) {
		p.add(&chunkRow{Number: i, Route: rowRoutes[i%tenants], Mailbox: fmt.Sprintf("user%d", i)})
	}
	require.True(t, p.manyHosts())
	seen, visits := map[uint32]bool{}, 0
	cuts := p.splitRows(wire.MaxRows)
	for _, cut := range cuts {
		require.LessOrEqual(t, len(cut), wire.MaxRows)
		visited := map[uint16]bool{}
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
	p := &chunkBuilder{}
	rowRoutes := make([]rowRoute, wire.MaxRows/64)
	for i := range uint32(wire.MaxRows) {
		p.add(&chunkRow{Number: i, Route: &rowRoutes[int(i)%len(rowRoutes)], Mailbox: "user"})
	}
	require.False(t, p.manyHosts())
}

// TestRowsOfAnyLengthFitAChunk: a row that is longer than a block gets its own block.
func TestRowsOfAnyLengthFitAChunk(t *testing.T) {
	table := engine.DefaultTable()
	v := &rowRoute{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	p := &chunkBuilder{}
	var want []string
	for i, n := range []int{0, 1, rowBlockSize - rowHeaderBytes, rowBlockSize, 3 * rowBlockSize, 254, 254, 254, 254, 254, 254, 254, 254, 254, 12} {
		want = append(want, strings.Repeat(string(rune('a'+i)), n))
		p.add(&chunkRow{Number: uint32(i), Route: v, Mailbox: want[i]})
	}
	for i, at := range p.rows {
		require.Equal(t, want[i], string(p.row(at)[rowHeaderBytes:]))
	}
	p.release()
	require.Empty(t, p.blocks)
}

// TestRowBlocksAreReused reuses the blocks of written rows: each chunk has its own rows.
func TestRowBlocksAreReused(t *testing.T) {
	table := engine.DefaultTable()
	v := &rowRoute{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	var blocks pipeline.Pool[rowBlock]
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		p := &chunkBuilder{pool: &blocks}
		for i := range uint32(1000) {
			p.add(&chunkRow{Number: i, Route: v, Mailbox: fmt.Sprintf("user%d.%d@x.example", i, round)})
		}
		rows, err := unpackChunk(p.appendChunk(nil, p.rows, rng), table, func(uint32) bool { return false })
		require.NoError(t, err)
		p.release()
		p.release()
		require.Equal(t, 1000, rows.len())
		for i := range rows.len() {
			a := rows.rowAt(i)
			require.Equal(t, fmt.Sprintf("user%d.%d@x.example", a.Number, round), a.Mailbox)
		}
	}
}

// TestChunkWithABadRowIsRefused: wherever the bad row is, no rows of the chunk are returned.
func TestChunkWithABadRowIsRefused(t *testing.T) {
	table := engine.DefaultTable()
	v := &rowRoute{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	for _, n := range []int{1, textRows - 1, textRows, textRows + 1, 2 * textRows} {
		p := &chunkBuilder{}
		for i := range n {
			p.add(&chunkRow{Number: uint32(i), Route: v, Mailbox: "user@x.example"})
		}
		p.add(&chunkRow{Number: uint32(n), Route: v, Mailbox: "nobody"})
		rows, err := unpackChunk(p.appendChunk(nil, p.rows, rand.New(rand.NewPCG(1, 2))), table, func(uint32) bool { return false })
		require.ErrorIs(t, err, errScratch)
		require.Nil(t, rows)
	}
}

// BenchmarkChunkBuilder measures a row from its route to the bytes of its chunk.
func BenchmarkChunkBuilder(b *testing.B) {
	rowRoutes := make([]rowRoute, 40)
	rng := rand.New(rand.NewPCG(1, 2))
	var buf []byte
	b.ReportAllocs()
	for left := b.N; left > 0; left -= maxBufferedRows {
		p := &chunkBuilder{}
		for i := range min(left, maxBufferedRows) {
			p.add(&chunkRow{Number: uint32(i), Route: &rowRoutes[i%len(rowRoutes)], Mailbox: "some.usual.name@of.a.domain.example"})
		}
		for _, cut := range p.splitRows(wire.MaxRows) {
			buf = p.appendChunk(buf[:0], cut, rng)
		}
		p.release()
	}
}
