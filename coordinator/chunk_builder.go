package coordinator

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/zeebo/xxh3"

	"probity/prober/wire"
	"probity/prober/wire/press"
)

// chunkBuilder gathers asks, of which it makes chunks. Its rows stand in blocks that never move: a slice that grows as far leaves five
// times its size behind (BenchmarkChunkBuilder: 354 ns and 356 bytes a row; 75 ns and 17 bytes in blocks).
type chunkBuilder struct {
	pool        *bufferPool[rowBlock]
	routes      []*rowRoute
	routeIndex  map[*rowRoute]uint16
	blocks      [][]byte
	rows        []uint32 // where each stands: its block, and the place in it
	chunkRoutes []uint16 // of each route, while a chunk is written: its number there, plus one
}

const (
	rowOffsetBits = 11 // of a place in a block
	rowBlockSize  = 1 << rowOffsetBits
)

type rowBlock [rowBlockSize]byte

func (p *chunkBuilder) len() int { return len(p.rows) }

// size is about the memory it holds.
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

// blockFor is the block where the next row of n bytes goes: one of its own where it is longer than any address is.
func (p *chunkBuilder) blockFor(n int) *[]byte {
	if last := len(p.blocks) - 1; last < 0 || len(p.blocks[last])+n > rowBlockSize {
		p.blocks = append(p.blocks, slices.Grow(p.pool.get()[:0], n))
	}
	return &p.blocks[len(p.blocks)-1]
}

// release gives the blocks back: the rows are written, and nothing reads them here any more.
func (p *chunkBuilder) release() {
	for _, b := range p.blocks {
		if cap(b) == rowBlockSize {
			p.pool.put((*rowBlock)(b[:rowBlockSize]))
		}
	}
	p.blocks, p.rows = nil, nil
}

// Where a row says which route it takes, and how long its mailbox and its suggestion are.
const (
	routeAt            = 4 + 1 + 1
	mailboxAt          = routeAt + 2
	suggestionAt       = mailboxAt + 2
	maxSuggestionBytes = 1 << 10 // bytes; an address has at most 320
)

// routeNumber is the number of a route among those of the rows.
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

// manyHosts reports rows of so many routes that few would be of each in a chunk: each is a host of its own, maybe, and wants a
// connection of its own from every chunk.
func (p *chunkBuilder) manyHosts() bool {
	const few = 32
	return p.len() < few*len(p.routes)
}

// splitRows shares the rows out to chunks of at most so many, each drawn from all of them: a bad stretch of a list does not become
// a bad chunk. Whole chunks are of some routes each, and hold nearly all of their rows: a cut may go through a route.
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

// byRoute brings the rows of each route together, the routes in any order.
func (p *chunkBuilder) byRoute() []uint32 {
	next := make([]int, len(p.routes)) // how many rows a route has, then where the next of them goes
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

// routeOf is the number of a row's route.
func (p *chunkBuilder) routeOf(at uint32) uint16 {
	return binary.LittleEndian.Uint16(p.row(at)[routeAt:])
}

// row is the row that stands at a place.
func (p *chunkBuilder) row(at uint32) []byte {
	b := p.blocks[at>>rowOffsetBits][at&(rowBlockSize-1):]
	return b[:rowHeaderBytes+int(binary.LittleEndian.Uint16(b[mailboxAt:]))+int(binary.LittleEndian.Uint16(b[suggestionAt:]))]
}

// appendChunk appends the chunk of some of the rows, which it shuffles so that a bad stretch of a list does not burn a budget.
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
