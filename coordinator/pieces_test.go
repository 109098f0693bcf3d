package coordinator

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/press"
)

// TestPiecesMixTheirRows cuts four thousand rows of which a stretch of a thousand is bad: every row is in one piece, by its own
// route, and no piece has more than its share of the bad ones by much. Within a piece they are shuffled too.
func TestPiecesMixTheirRows(t *testing.T) {
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
	for _, piece := range p.pieces(leastRows, &breather{press: &press.Meter{}}) {
		require.LessOrEqual(t, piece.len(), leastRows)
		rows, err := unpackChunk(piece.appendChunk(nil, rand.New(rand.NewPCG(1, 2))), table, func(uint32) bool { return false }, nil)
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
		require.InDelta(t, 0.25, float64(bad)/float64(piece.len()), 0.2)
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
	pieces := p.pieces(wire.MaxRows, &breather{press: &press.Meter{}})
	for _, piece := range pieces {
		require.LessOrEqual(t, piece.len(), wire.MaxRows)
		visits += len(piece.vias)
		for i := range piece.len() {
			row := piece.row(i)
			number := binary.LittleEndian.Uint32(row)
			require.False(t, seen[number])
			seen[number] = true
			require.Same(t, vias[number%tenants], piece.vias[binary.LittleEndian.Uint16(row[viaAt:])])
		}
	}
	require.Len(t, seen, rows)
	require.Less(t, visits, tenants+len(pieces), "a route is cut where a chunk ends, and nowhere else")
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
