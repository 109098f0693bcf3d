package chunks

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/zeebo/xxh3"

	"probity/internal/pipeline"
	"probity/prober/wire"
	"probity/prober/wire/press"
)

// Builder collects rows and makes chunks of them. Rows are in blocks that never move: a growing slice would leave five
// times its size as garbage (BenchmarkChunkBuilder).
type Builder struct {
	Pool        *pipeline.Pool[Block]
	routes      []*Route
	routeIndex  map[*Route]uint16
	blocks      [][]byte
	Rows        []uint32 // position of each row: block number, then offset in the block
	chunkRoutes []uint16 // while a chunk is written: for each route its number in the chunk plus one
}

const (
	rowOffsetBits = 11 // bits of an offset in a block
	rowBlockSize  = 1 << rowOffsetBits
)

// Block is the memory of some rows.
type Block [rowBlockSize]byte

// Len returns the number of rows.
func (p *Builder) Len() int { return len(p.Rows) }

// Size estimates the memory that it uses, in bytes.
func (p *Builder) Size() int {
	return rowBlockSize*len(p.blocks) + 4*cap(p.Rows) + 64*len(p.routes)
}

// Add adds a row.
func (p *Builder) Add(a *Row) {
	route, ok := p.routeIndex[a.Route]
	if !ok {
		if p.routeIndex == nil {
			p.routeIndex = map[*Route]uint16{}
		}
		route = uint16(len(p.routes))
		p.routeIndex[a.Route] = route
		p.routes = append(p.routes, a.Route)
	}
	suggestion := a.Suggestion[:min(len(a.Suggestion), maxSuggestionBytes)]
	size := rowHeaderBytes + len(a.Mailbox) + len(suggestion)
	if last := len(p.blocks) - 1; last < 0 || len(p.blocks[last])+size > rowBlockSize {
		p.blocks = append(p.blocks, slices.Grow(p.Pool.Get()[:0], size)) // a row longer than a block gets one of its own
	}
	b := &p.blocks[len(p.blocks)-1]
	if len(p.Rows) == cap(p.Rows) {
		p.Rows = slices.Grow(p.Rows, max(16, len(p.Rows)))
	}
	p.Rows = append(p.Rows, uint32(len(p.blocks)-1)<<rowOffsetBits|uint32(len(*b)))
	le := binary.LittleEndian
	*b = le.AppendUint32(*b, a.Number)
	*b = append(*b, a.Attempt, byte(a.Flags))
	*b = le.AppendUint16(*b, route)                   // at routeAt
	*b = le.AppendUint16(*b, uint16(len(a.Mailbox)))  // at mailboxAt
	*b = le.AppendUint16(*b, uint16(len(suggestion))) // at suggestionAt
	*b = append(append(*b, a.Mailbox...), suggestion...)
}

// Release returns the blocks to the pool, once the rows are written.
func (p *Builder) Release() {
	for _, b := range p.blocks {
		if cap(b) == rowBlockSize {
			p.Pool.Put((*Block)(b[:rowBlockSize]))
		}
	}
	p.blocks, p.Rows = nil, nil
}

// Offsets in a row of its route number, the length of its mailbox and the length of its suggestion.
const (
	routeAt            = 4 + 1 + 1
	mailboxAt          = routeAt + 2
	suggestionAt       = mailboxAt + 2
	maxSuggestionBytes = 1 << 10 // bytes; an address has at most 320
)

// ManyHosts reports rows of so many routes that a chunk would have few rows of each. Each route may be another host, which
// would need a connection for every chunk.
func (p *Builder) ManyHosts() bool {
	const few = 32
	return p.Len() < few*len(p.routes)
}

// SplitRows distributes the rows to chunks of at most most rows. Rows are shuffled, so that a run of bad addresses in the list
// does not become one bad chunk. If chunks may be full (wire.MaxRows), rows of a route stay together: only a chunk's
// boundary may split them.
func (p *Builder) SplitRows(most int) [][]uint32 {
	if p.Len() <= most {
		return [][]uint32{p.Rows}
	}
	rand.Shuffle(len(p.Rows), func(i, j int) {
		press.Yield(i)
		p.Rows[i], p.Rows[j] = p.Rows[j], p.Rows[i]
	})
	if most < wire.MaxRows {
		return slices.Collect(slices.Chunk(p.Rows, most))
	}
	// Grouped by route, in random order of routes.
	next := make([]int, len(p.routes)) // first the rows of each route, then the position of its next row
	for _, at := range p.Rows {
		next[p.routeOf(at)]++
	}
	at := 0
	for _, v := range rand.Perm(len(next)) {
		next[v], at = at, at+next[v]
	}
	sorted := make([]uint32, len(p.Rows))
	for i, at := range p.Rows {
		press.Yield(i)
		v := p.routeOf(at)
		sorted[next[v]] = at
		next[v]++
	}
	p.Rows = sorted
	return slices.Collect(slices.Chunk(p.Rows, most))
}

// routeOf returns the route number of the row at a position.
func (p *Builder) routeOf(at uint32) uint16 {
	return binary.LittleEndian.Uint16(p.row(at)[routeAt:])
}

// row returns the row at a position.
func (p *Builder) row(at uint32) []byte {
	b := p.blocks[at>>rowOffsetBits][at&(rowBlockSize-1):]
	return b[:rowHeaderBytes+int(binary.LittleEndian.Uint16(b[mailboxAt:]))+int(binary.LittleEndian.Uint16(b[suggestionAt:]))]
}

// AppendChunk appends a chunk of some of the rows. It shuffles them, so that a run of bad addresses does not use up a budget.
func (p *Builder) AppendChunk(dst []byte, rows []uint32, rng *rand.Rand) []byte {
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	le := binary.LittleEndian
	head := len(dst)
	dst = le.AppendUint32(dst, chunkMagic)
	dst = le.AppendUint32(dst, uint32(len(rows)))
	dst = append(dst, make([]byte, 4+8)...)
	p.chunkRoutes = slices.Grow(p.chunkRoutes[:0], len(p.routes))[:len(p.routes)]
	clear(p.chunkRoutes)
	routes := uint16(0)
	for i, at := range rows {
		press.Yield(i)
		number := &p.chunkRoutes[p.routeOf(at)]
		if *number != 0 {
			continue
		}
		routes++
		*number = routes
		v := p.routes[p.routeOf(at)]
		dst = append(dst, byte(v.Fact), byte(len(v.Hosts)))
		mx := v.Mx[:min(len(v.Mx), maxMXBytes)]
		dst = append(le.AppendUint16(dst, uint16(len(mx))), mx...)
		for _, h := range v.Hosts {
			h = h[:min(len(h), 255)]
			dst = append(append(dst, byte(len(h))), h...)
		}
	}
	for i, at := range rows {
		press.Yield(i)
		start := len(dst)
		dst = append(dst, p.row(at)...)
		where := dst[start+routeAt:]
		le.PutUint16(where, p.chunkRoutes[le.Uint16(where)]-1)
	}
	le.PutUint32(dst[head+8:], uint32(routes))
	le.PutUint64(dst[head+12:], xxh3.Hash(dst[head+chunkHeader:]))
	return dst
}
