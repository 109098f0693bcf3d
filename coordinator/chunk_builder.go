package coordinator

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/zeebo/xxh3"

	"probity/internal/pipeline"
	"probity/prober/wire"
	"probity/prober/wire/press"
)

// chunkBuilder collects rows and makes chunks of them. Rows are in blocks that never move: a growing slice would leave five
// times its size as garbage (BenchmarkChunkBuilder).
type chunkBuilder struct {
	pool        *pipeline.Pool[rowBlock]
	routes      []*rowRoute
	routeIndex  map[*rowRoute]uint16
	blocks      [][]byte
	rows        []uint32 // position of each row: block number, then offset in the block
	chunkRoutes []uint16 // while a chunk is written: for each route its number in the chunk plus one
}

const (
	rowOffsetBits = 11 // bits of an offset in a block
	rowBlockSize  = 1 << rowOffsetBits
)

type rowBlock [rowBlockSize]byte

func (p *chunkBuilder) len() int { return len(p.rows) }

// size estimates the memory that it uses, in bytes.
func (p *chunkBuilder) size() int {
	return rowBlockSize*len(p.blocks) + 4*cap(p.rows) + 64*len(p.routes)
}

func (p *chunkBuilder) add(a *chunkRow) {
	at := p.routeNumber(a.Route)
	le := binary.LittleEndian
	suggestion := a.Suggestion[:min(len(a.Suggestion), maxSuggestionBytes)]
	b := p.blockFor(rowHeaderBytes + len(a.Mailbox) + len(suggestion))
	if len(p.rows) == cap(p.rows) {
		p.rows = slices.Grow(p.rows, max(16, len(p.rows)))
	}
	p.rows = append(p.rows, uint32(len(p.blocks)-1)<<rowOffsetBits|uint32(len(*b)))
	*b = le.AppendUint32(*b, a.Number)
	*b = append(*b, a.Attempt, byte(a.Flags))
	*b = le.AppendUint16(*b, at)                      // at routeAt
	*b = le.AppendUint16(*b, uint16(len(a.Mailbox)))  // at mailboxAt
	*b = le.AppendUint16(*b, uint16(len(suggestion))) // at suggestionAt
	*b = append(append(*b, a.Mailbox...), suggestion...)
}

// blockFor returns the block for the next row, of n bytes. A row longer than a block gets a block of its own.
func (p *chunkBuilder) blockFor(n int) *[]byte {
	if last := len(p.blocks) - 1; last < 0 || len(p.blocks[last])+n > rowBlockSize {
		p.blocks = append(p.blocks, slices.Grow(p.pool.Get()[:0], n))
	}
	return &p.blocks[len(p.blocks)-1]
}

// release returns the blocks to the pool, once the rows are written.
func (p *chunkBuilder) release() {
	for _, b := range p.blocks {
		if cap(b) == rowBlockSize {
			p.pool.Put((*rowBlock)(b[:rowBlockSize]))
		}
	}
	p.blocks, p.rows = nil, nil
}

// Offsets in a row of its route number, the length of its mailbox and the length of its suggestion.
const (
	routeAt            = 4 + 1 + 1
	mailboxAt          = routeAt + 2
	suggestionAt       = mailboxAt + 2
	maxSuggestionBytes = 1 << 10 // bytes; an address has at most 320
)

// routeNumber returns the number of a route, and adds the route if it is new.
func (p *chunkBuilder) routeNumber(v *rowRoute) uint16 {
	at, ok := p.routeIndex[v]
	if !ok {
		if p.routeIndex == nil {
			p.routeIndex = map[*rowRoute]uint16{}
		}
		at = uint16(len(p.routes))
		p.routeIndex[v] = at
		p.routes = append(p.routes, v)
	}
	return at
}

// manyHosts reports rows of so many routes that a chunk would have few rows of each. Each route may be another host, which
// would need a connection for every chunk.
func (p *chunkBuilder) manyHosts() bool {
	const few = 32
	return p.len() < few*len(p.routes)
}

// splitRows distributes the rows to chunks of at most most rows. Rows are shuffled, so that a run of bad addresses in the list
// does not become one bad chunk. If chunks may be full (wire.MaxRows), rows of a route stay together: only a chunk's
// boundary may split them.
func (p *chunkBuilder) splitRows(most int) [][]uint32 {
	if p.len() <= most {
		return [][]uint32{p.rows}
	}
	rand.Shuffle(len(p.rows), func(i, j int) {
		press.Yield(i)
		p.rows[i], p.rows[j] = p.rows[j], p.rows[i]
	})
	if most >= wire.MaxRows {
		p.rows = p.byRoute()
	}
	return slices.Collect(slices.Chunk(p.rows, most))
}

// byRoute groups the rows by route, in random order of routes.
func (p *chunkBuilder) byRoute() []uint32 {
	next := make([]int, len(p.routes)) // first the rows of each route, then the position of its next row
	for _, at := range p.rows {
		next[p.routeOf(at)]++
	}
	at := 0
	for _, v := range rand.Perm(len(next)) {
		next[v], at = at, at+next[v]
	}
	sorted := make([]uint32, len(p.rows))
	for i, at := range p.rows {
		press.Yield(i)
		v := p.routeOf(at)
		sorted[next[v]] = at
		next[v]++
	}
	return sorted
}

// routeOf returns the route number of the row at a position.
func (p *chunkBuilder) routeOf(at uint32) uint16 {
	return binary.LittleEndian.Uint16(p.row(at)[routeAt:])
}

// row returns the row at a position.
func (p *chunkBuilder) row(at uint32) []byte {
	b := p.blocks[at>>rowOffsetBits][at&(rowBlockSize-1):]
	return b[:rowHeaderBytes+int(binary.LittleEndian.Uint16(b[mailboxAt:]))+int(binary.LittleEndian.Uint16(b[suggestionAt:]))]
}

// appendChunk appends a chunk of some of the rows. It shuffles them, so that a run of bad addresses does not use up a budget.
func (p *chunkBuilder) appendChunk(dst []byte, rows []uint32, rng *rand.Rand) []byte {
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
		if v := p.routeOf(at); p.chunkRoutes[v] == 0 {
			routes++
			p.chunkRoutes[v] = routes
			dst = appendRoute(dst, p.routes[v])
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
