package coordinator

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// TestCutsMixTheirRows cuts four thousand rows of which a stretch of a thousand is bad: every row is in one chunk, by its own
// route, and no chunk has more than its share of the bad ones by much. Within a chunk they are shuffled too.
func TestCutsMixTheirRows(t *testing.T) {
	table := engine.DefaultTable()
	p := &packer{}
	var vias []*via
	for i := range 9 {
		vias = append(vias, &via{Route: table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.slow.example", i)}})})
	}
	for i := range uint32(4000) {
		p.add(&ask{Number: i, Via: vias[i%9], Mailbox: fmt.Sprintf("user%d@d%d.example", i, i%9)})
	}
	seen := map[uint32]bool{}
	for _, cut := range p.cuts(leastRows) {
		require.LessOrEqual(t, len(cut), leastRows)
		rows, err := unpackChunk(p.appendChunk(nil, cut, rand.New(rand.NewPCG(1, 2))), table, func(uint32) bool { return false })
		require.NoError(t, err)
		bad, follow := 0, 0
		for i := range rows.len() {
			a := rows.ask(i)
			require.False(t, seen[a.Number])
			seen[a.Number] = true
			require.Equal(t, vias[a.Number%9].Key, a.Via.Key)
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

// TestWholeChunksKeepRoutesTogether: a provider's tenants have a host each, and rows of a tenant in every chunk would want a
// connection from every chunk.
func TestWholeChunksKeepRoutesTogether(t *testing.T) {
	const tenants, rows = 1500, 3*wire.MaxRows + 100
	table := engine.DefaultTable()
	p := &packer{}
	var vias []*via
	for i := range tenants {
		vias = append(vias, &via{Route: table.NewRoute([]engine.MX{{Host: fmt.Sprintf("mx%d.tenant.example", i)}})})
	}
	for i := range uint32(rows) {
		p.add(&ask{Number: i, Via: vias[i%tenants], Mailbox: fmt.Sprintf("user%d", i)})
	}
	require.True(t, p.scattered())
	seen, visits := map[uint32]bool{}, 0
	cuts := p.cuts(wire.MaxRows)
	for _, cut := range cuts {
		require.LessOrEqual(t, len(cut), wire.MaxRows)
		visited := map[uint16]bool{}
		for _, at := range cut {
			number := binary.LittleEndian.Uint32(p.row(at))
			require.False(t, seen[number])
			seen[number] = true
			visited[p.viaOf(at)] = true
			require.Same(t, vias[number%tenants], p.vias[p.viaOf(at)])
		}
		visits += len(visited)
	}
	require.Len(t, seen, rows)
	require.Less(t, visits, tenants+len(cuts), "a route is cut where a chunk ends, and nowhere else")
}

// TestFewRoutesAreNotScattered: their chunks need not wait for more rows.
func TestFewRoutesAreNotScattered(t *testing.T) {
	p := &packer{}
	vias := make([]via, wire.MaxRows/64)
	for i := range uint32(wire.MaxRows) {
		p.add(&ask{Number: i, Via: &vias[int(i)%len(vias)], Mailbox: "user"})
	}
	require.False(t, p.scattered())
}

// TestRowsOfAnyLengthArePacked: a row that is longer than a block has one of its own.
func TestRowsOfAnyLengthArePacked(t *testing.T) {
	table := engine.DefaultTable()
	v := &via{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	p := &packer{}
	var want []string
	for i, n := range []int{0, 1, rowBlockSize - askFixed, rowBlockSize, 3 * rowBlockSize, 254, 254, 254, 254, 254, 254, 254, 254, 254, 12} {
		want = append(want, strings.Repeat(string(rune('a'+i)), n))
		p.add(&ask{Number: uint32(i), Via: v, Mailbox: want[i]})
	}
	for i, at := range p.rows {
		require.Equal(t, want[i], string(p.row(at)[askFixed:]))
	}
	p.release()
	require.Empty(t, p.blocks)
}

// TestBlocksAreUsedAgain packs rows into the blocks of rows that were written: each chunk has its own.
func TestBlocksAreUsedAgain(t *testing.T) {
	table := engine.DefaultTable()
	v := &via{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	var blocks spare[rowBlock]
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		p := &packer{spare: &blocks}
		for i := range uint32(1000) {
			p.add(&ask{Number: i, Via: v, Mailbox: fmt.Sprintf("user%d.%d@x.example", i, round)})
		}
		rows, err := unpackChunk(p.appendChunk(nil, p.rows, rng), table, func(uint32) bool { return false })
		require.NoError(t, err)
		p.release()
		p.release()
		require.Equal(t, 1000, rows.len())
		for i := range rows.len() {
			a := rows.ask(i)
			require.Equal(t, fmt.Sprintf("user%d.%d@x.example", a.Number, round), a.Mailbox)
		}
	}
}

// TestNoRowsOfAChunkWithABadOne: wherever it stands, nobody is given a part of its rows.
func TestNoRowsOfAChunkWithABadOne(t *testing.T) {
	table := engine.DefaultTable()
	v := &via{Route: table.NewRoute([]engine.MX{{Host: "mx.example"}})}
	for _, n := range []int{1, textRows - 1, textRows, textRows + 1, 2 * textRows} {
		p := &packer{}
		for i := range n {
			p.add(&ask{Number: uint32(i), Via: v, Mailbox: "user@x.example"})
		}
		p.add(&ask{Number: uint32(n), Via: v, Mailbox: "nobody"})
		rows, err := unpackChunk(p.appendChunk(nil, p.rows, rand.New(rand.NewPCG(1, 2))), table, func(uint32) bool { return false })
		require.ErrorIs(t, err, errScratch)
		require.Nil(t, rows)
	}
}

// BenchmarkGather is what a row of a list costs from its route to the bytes of its chunk.
func BenchmarkGather(b *testing.B) {
	vias := make([]via, 40)
	rng := rand.New(rand.NewPCG(1, 2))
	var buf []byte
	b.ReportAllocs()
	for left := b.N; left > 0; left -= gatherRows {
		p := &packer{}
		for i := range min(left, gatherRows) {
			p.add(&ask{Number: uint32(i), Via: &vias[i%len(vias)], Mailbox: "some.usual.name@of.a.domain.example"})
		}
		for _, cut := range p.cuts(wire.MaxRows) {
			buf = p.appendChunk(buf[:0], cut, rng)
		}
		p.release()
	}
}
