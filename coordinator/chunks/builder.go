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
	routeIndex  map[*Route]uint32
	blocks      [][]byte
	Rows        []uint32 // position of each row: block number, then offset in the block
	chunkRoutes []uint32 // while a chunk is written: for each route its number in the chunk plus one
}

const (
	rowOffsetBits = 11 // bits of an offset in a block
	rowBlockSize  = 1 << rowOffsetBits
)

// Block is the memory of some rows.
type Block [rowBlockSize]byte

// Len returns the number of rows.
func (b *Builder) Len() int { return len(b.Rows) }

// Size estimates the memory that it uses, in bytes.
func (b *Builder) Size() int {
	return rowBlockSize*len(b.blocks) + 4*cap(b.Rows) + 64*len(b.routes)
}

// Add adds a row.
func (b *Builder) Add(a *Row) {
	route, ok := b.routeIndex[a.Route]
	if !ok {
		if b.routeIndex == nil {
			b.routeIndex = map[*Route]uint32{}
		}
		route = uint32(len(b.routes))
		b.routeIndex[a.Route] = route
		b.routes = append(b.routes, a.Route)
	}
	suggestion := a.Suggestion[:min(len(a.Suggestion), maxSuggestionBytes)]
	size := rowHeaderBytes + len(a.Mailbox) + len(suggestion)
	if last := len(b.blocks) - 1; last < 0 || len(b.blocks[last])+size > rowBlockSize {
		// a row longer than a block gets one of its own
		b.blocks = append(b.blocks, slices.Grow(b.Pool.Get()[:0], size))
	}
	block := &b.blocks[len(b.blocks)-1]
	if len(b.Rows) == cap(b.Rows) {
		b.Rows = slices.Grow(b.Rows, max(16, len(b.Rows)))
	}
	b.Rows = append(b.Rows, uint32(len(b.blocks)-1)<<rowOffsetBits|uint32(len(*block)))
	le := binary.LittleEndian
	*block = le.AppendUint32(*block, a.Number)
	*block = append(*block, a.Attempt, byte(a.Flags))
	*block = le.AppendUint32(*block, route)                   // at routeAt
	*block = le.AppendUint16(*block, uint16(len(a.Mailbox)))  // at mailboxAt
	*block = le.AppendUint16(*block, uint16(len(suggestion))) // at suggestionAt
	*block = append(append(*block, a.Mailbox...), suggestion...)
}

// Release returns the blocks to the pool, once the rows are written.
func (b *Builder) Release() {
	for _, block := range b.blocks {
		if cap(block) == rowBlockSize {
			b.Pool.Put((*Block)(block[:rowBlockSize]))
		}
	}
	b.blocks, b.Rows = nil, nil
}

// Offsets in a row of its route number, the length of its mailbox and the length of its suggestion.
const (
	routeAt            = 4 + 1 + 1
	mailboxAt          = routeAt + 4
	suggestionAt       = mailboxAt + 2
	maxSuggestionBytes = 1 << 10 // bytes; an address has at most 320
)

// ManyHosts reports rows of so many routes that a chunk would have few rows of each. Each route may be another host,
// which would need a connection for every chunk.
func (b *Builder) ManyHosts() bool {
	const few = 32
	return b.Len() < few*len(b.routes)
}

// SplitRows distributes the rows to chunks of at most most rows. Rows are shuffled, so that a run of bad addresses in
// the list does not become one bad chunk. If chunks may be full (wire.MaxRows), rows of a route stay together: only a
// chunk's boundary may split them.
func (b *Builder) SplitRows(most int) [][]uint32 {
	if b.Len() <= most {
		return [][]uint32{b.Rows}
	}
	rand.Shuffle(len(b.Rows), func(i, j int) {
		press.Yield(i)
		b.Rows[i], b.Rows[j] = b.Rows[j], b.Rows[i]
	})
	if most < wire.MaxRows {
		return slices.Collect(slices.Chunk(b.Rows, most))
	}
	// Grouped by route, in random order of routes.
	next := make([]int, len(b.routes)) // first the rows of each route, then the position of its next row
	for _, at := range b.Rows {
		next[b.routeOf(at)]++
	}
	at := 0
	for _, v := range rand.Perm(len(next)) {
		next[v], at = at, at+next[v]
	}
	sorted := make([]uint32, len(b.Rows))
	for i, at := range b.Rows {
		press.Yield(i)
		v := b.routeOf(at)
		sorted[next[v]] = at
		next[v]++
	}
	b.Rows = sorted
	return slices.Collect(slices.Chunk(b.Rows, most))
}

// routeOf returns the route number of the row at a position.
func (b *Builder) routeOf(at uint32) uint32 {
	return binary.LittleEndian.Uint32(b.row(at)[routeAt:])
}

// row returns the row at a position.
func (b *Builder) row(at uint32) []byte {
	block := b.blocks[at>>rowOffsetBits][at&(rowBlockSize-1):]
	return block[:rowHeaderBytes+int(binary.LittleEndian.Uint16(block[mailboxAt:]))+
		int(binary.LittleEndian.Uint16(block[suggestionAt:]))]
}

// AppendChunk appends a chunk of some of the rows. It shuffles them, so that a run of bad addresses does not use up a
// budget.
func (b *Builder) AppendChunk(dst []byte, rows []uint32, rng *rand.Rand) []byte {
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	le := binary.LittleEndian
	dst = slices.Grow(dst, b.Size()/max(1, b.Len())*len(rows)) // about what follows
	head := len(dst)
	dst = le.AppendUint32(dst, chunkMagic)
	dst = le.AppendUint32(dst, uint32(len(rows)))
	dst = append(dst, make([]byte, 4+8)...)
	b.chunkRoutes = slices.Grow(b.chunkRoutes[:0], len(b.routes))[:len(b.routes)]
	clear(b.chunkRoutes)
	routes := uint32(0)
	for i, at := range rows {
		press.Yield(i)
		number := &b.chunkRoutes[b.routeOf(at)]
		if *number != 0 {
			continue
		}
		routes++
		*number = routes
		v := b.routes[b.routeOf(at)]
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
		dst = append(dst, b.row(at)...)
		where := dst[start+routeAt:]
		le.PutUint32(where, b.chunkRoutes[le.Uint32(where)]-1)
	}
	le.PutUint32(dst[head+8:], routes)
	le.PutUint64(dst[head+12:], xxh3.Hash(dst[head+chunkHeader:]))
	return dst
}
