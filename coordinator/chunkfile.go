package coordinator

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"probity/engine"
	"probity/prober/wire"
)

// via is a route with the offset of its MX set among the job's names; shared by the rows of a domain.
type via struct {
	engine.Route
	mx uint32
}

// ask is one row that a prober must be asked about.
type ask struct {
	Number     uint32
	Attempt    uint8
	Flags      engine.Flags
	Suggestion uint32
	Via        *via
	Mailbox    string
}

const (
	chunkMagic  = 0x31686370 // "pch1"
	chunkHeader = 4 + 4 + 4 + 8
	askFixed    = 4 + 1 + 1 + 2 + 4 + 2
)

var errChunkFile = fmt.Errorf("chunk file: %w", errDamaged)

// packer gathers asks, of which it makes chunks. Its rows stand in blocks that never move: a slice that grows as far leaves five
// times its size behind, which was a fifth of all that a list had the collector do (BenchmarkGather).
type packer struct {
	vias   []*via
	index  map[*via]uint16
	blocks [][]byte
	rows   []uint32 // where each stands: its block, and the place in it
	named  []uint16 // of each route, while a chunk is written: its number there, plus one
}

const (
	rowPlaceBits = 11 // of a place in a block
	rowBlockSize = 1 << rowPlaceBits
)

// rowBlocks are the blocks of packers that were written.
var rowBlocks = sync.Pool{New: func() any { return new([rowBlockSize]byte) }}

func (p *packer) len() int { return len(p.rows) }

// size is about the memory it holds.
func (p *packer) size() int { return rowBlockSize*len(p.blocks) + 4*cap(p.rows) + 64*len(p.vias) }

func (p *packer) add(a *ask) {
	at := p.via(a.Via)
	le := binary.LittleEndian
	b := p.room(askFixed + len(a.Mailbox))
	if len(p.rows) == cap(p.rows) {
		p.rows = slices.Grow(p.rows, max(16, len(p.rows)))
	}
	p.rows = append(p.rows, uint32(len(p.blocks)-1)<<rowPlaceBits|uint32(len(*b)))
	*b = le.AppendUint32(*b, a.Number)
	*b = append(*b, a.Attempt, byte(a.Flags))
	*b = le.AppendUint16(*b, at) // at viaAt
	*b = le.AppendUint32(*b, a.Suggestion)
	*b = le.AppendUint16(*b, uint16(len(a.Mailbox))) // at mailboxAt
	*b = append(*b, a.Mailbox...)
}

// room is the block where the next row of n bytes goes: one of its own where it is longer than any address is.
func (p *packer) room(n int) *[]byte {
	if last := len(p.blocks) - 1; last < 0 || len(p.blocks[last])+n > rowBlockSize {
		block := rowBlocks.Get().(*[rowBlockSize]byte)[:0]
		p.blocks = append(p.blocks, slices.Grow(block, n))
	}
	return &p.blocks[len(p.blocks)-1]
}

// release gives the blocks back: the rows are written, and nobody reads them here any more.
func (p *packer) release() {
	for _, b := range p.blocks {
		if cap(b) == rowBlockSize {
			rowBlocks.Put((*[rowBlockSize]byte)(b[:rowBlockSize]))
		}
	}
	p.blocks, p.rows = nil, nil
}

// Where a row says which route it takes, and how long its mailbox is.
const (
	viaAt     = 4 + 1 + 1
	mailboxAt = viaAt + 2 + 4
)

// via is the number of a route among those of the rows.
func (p *packer) via(v *via) uint16 {
	at, ok := p.index[v]
	if !ok {
		if p.index == nil {
			p.index = map[*via]uint16{}
		}
		at = uint16(len(p.vias))
		p.index[v] = at
		p.vias = append(p.vias, v)
	}
	return at
}

// scattered reports rows of so many routes that few would be of each in a chunk: each is a host of its own, maybe, and wants a
// connection of its own from every chunk.
func (p *packer) scattered() bool {
	const few = 32
	return p.len() < few*len(p.vias)
}

// cuts shares the rows out to chunks of at most so many, each drawn from all of them: a bad stretch of a list does not become
// a bad chunk. Whole chunks are of some routes each, and hold nearly all of their rows: a cut may go through a route.
func (p *packer) cuts(most int) [][]uint32 {
	if p.len() <= most {
		return [][]uint32{p.rows}
	}
	rand.Shuffle(len(p.rows), func(i, j int) { p.rows[i], p.rows[j] = p.rows[j], p.rows[i] })
	if most >= wire.MaxRows {
		p.rows = p.byRoute()
	}
	return slices.Collect(slices.Chunk(p.rows, most))
}

// byRoute brings the rows of each route together, the routes in any order.
func (p *packer) byRoute() []uint32 {
	next := make([]int, len(p.vias)) // how many rows a route has, then where the next of them goes
	for _, at := range p.rows {
		next[p.viaOf(at)]++
	}
	at := 0
	for _, v := range rand.Perm(len(next)) {
		next[v], at = at, at+next[v]
	}
	sorted := make([]uint32, len(p.rows))
	for _, at := range p.rows {
		v := p.viaOf(at)
		sorted[next[v]] = at
		next[v]++
	}
	return sorted
}

// viaOf is the number of a row's route.
func (p *packer) viaOf(at uint32) uint16 { return binary.LittleEndian.Uint16(p.row(at)[viaAt:]) }

// row is the row that stands at a place.
func (p *packer) row(at uint32) []byte {
	b := p.blocks[at>>rowPlaceBits][at&(rowBlockSize-1):]
	return b[:askFixed+int(binary.LittleEndian.Uint16(b[mailboxAt:]))]
}

// appendChunk appends the chunk of some of the rows, which it shuffles so that a bad stretch of a list does not burn a budget.
func (p *packer) appendChunk(dst []byte, rows []uint32, rng *rand.Rand) []byte {
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	le := binary.LittleEndian
	head := len(dst)
	dst = le.AppendUint32(dst, chunkMagic)
	dst = le.AppendUint32(dst, uint32(len(rows)))
	dst = append(dst, make([]byte, 4+8)...)
	p.named = slices.Grow(p.named[:0], len(p.vias))[:len(p.vias)]
	clear(p.named)
	routes := uint16(0)
	for _, at := range rows {
		if v := p.viaOf(at); p.named[v] == 0 {
			routes++
			p.named[v] = routes
			dst = appendVia(dst, p.vias[v])
		}
	}
	for _, at := range rows {
		start := len(dst)
		dst = append(dst, p.row(at)...)
		where := dst[start+viaAt:]
		le.PutUint16(where, p.named[le.Uint16(where)]-1)
	}
	le.PutUint32(dst[head+8:], uint32(routes))
	le.PutUint64(dst[head+12:], xxh3.Hash(dst[head+chunkHeader:]))
	return dst
}

func appendVia(dst []byte, v *via) []byte {
	dst = append(dst, byte(v.Fact), byte(len(v.Hosts)))
	dst = binary.LittleEndian.AppendUint32(dst, v.mx)
	for _, h := range v.Hosts {
		dst = append(dst, byte(min(len(h), 255)))
		dst = append(dst, h[:min(len(h), 255)]...)
	}
	return dst
}

// chunkRows is a chunk as read back. It is alive until the last of its rows has an answer: beside ten lists that is a tenth of what
// the collector looks through.
type chunkRows struct {
	batch []wire.Row // in the order they are asked
	own   []askOwn   // of each row, what a prober is not told
	vias  []*via
}

type askOwn struct {
	suggestion uint32
	via        uint16
}

func (r *chunkRows) len() int { return len(r.batch) }

// ask is a row as it was gathered.
func (r *chunkRows) ask(i int) ask {
	a := r.nameless(i)
	a.Mailbox = r.batch[i].Address.Mailbox()
	return a
}

// nameless is ask without the mailbox, which may have to be put together.
func (r *chunkRows) nameless(i int) ask {
	row, own := &r.batch[i], r.own[i]
	return ask{Number: row.Number, Attempt: row.Attempt, Flags: row.Flags, Suggestion: own.suggestion, Via: r.vias[own.via]}
}

// unpack reads a chunk. Rows that skip reports are left out: they were answered before. It breathes with rest, which may be nil.
func unpackChunk(b []byte, t *engine.Table, skip func(uint32) bool, rest *breather) (*chunkRows, error) {
	le := binary.LittleEndian
	if len(b) < chunkHeader || le.Uint32(b) != chunkMagic || le.Uint64(b[12:]) != xxh3.Hash(b[chunkHeader:]) {
		return nil, errChunkFile
	}
	rows, routes := int(le.Uint32(b[4:])), int(le.Uint32(b[8:]))
	if rows > wire.MaxRows || routes > rows {
		return nil, errChunkFile
	}
	b = b[chunkHeader:]
	vias := make([]*via, routes)
	r := chunkReader{rest: b}
	for i := range vias {
		rest.row(i)
		if vias[i] = r.via(t); r.short {
			return nil, errChunkFile
		}
	}
	out := &chunkRows{batch: make([]wire.Row, 0, rows), own: make([]askOwn, 0, rows), vias: vias}
	var group textGroup
	for range rows {
		f := r.next(askFixed)
		mailbox := r.next(int(le.Uint16(f[mailboxAt:])))
		if r.short || int(le.Uint16(f[viaAt:])) >= len(vias) {
			return nil, errChunkFile
		}
		if skip(le.Uint32(f)) {
			continue
		}
		rest.row(out.len() + len(group.rows))
		if group.add(f, mailbox); len(group.rows) < textRows {
			continue
		}
		if err := out.take(&group); err != nil {
			return nil, err
		}
	}
	return out, out.take(&group)
}

// textRows is how many rows of a chunk share the memory of their mailboxes. A text for each would be most of what the collector finds
// in a chunk; one for all would be kept by whoever keeps the domain of one of them.
const textRows = 32

// textGroup is rows as they stand in a chunk, and the text of their mailboxes.
type textGroup struct {
	rows []textRow
	text []byte
}

type textRow struct {
	fixed []byte
	end   int // of its mailbox in the text
}

func (g *textGroup) add(fixed, mailbox []byte) {
	g.text = append(g.text, mailbox...)
	g.rows = append(g.rows, textRow{fixed, len(g.text)})
}

// take adds the rows of a group, and empties it.
func (r *chunkRows) take(g *textGroup) error {
	le := binary.LittleEndian
	text, from := string(g.text), 0
	for _, row := range g.rows {
		f := row.fixed
		number, route := le.Uint32(f), le.Uint16(f[viaAt:])
		addr, err := engine.Parse(text[from:row.end])
		if err != nil {
			return fmt.Errorf("chunk row %d: %w: %w", number, errDamaged, err)
		}
		from = row.end
		r.batch = append(r.batch, wire.Row{Number: number, Attempt: f[4], Flags: engine.Flags(f[5]), Address: addr, Route: &r.vias[route].Route})
		r.own = append(r.own, askOwn{le.Uint32(f[8:]), route})
	}
	g.rows, g.text = g.rows[:0], g.text[:0]
	return nil
}

// chunkNumbers calls visit with the numbers of a chunk's rows.
func chunkNumbers(b []byte, t *engine.Table, visit func(uint32)) error {
	_, err := unpackChunk(b, t, func(row uint32) bool { visit(row); return true }, nil)
	return err
}

// chunkReader reads a chunk piece by piece. The checksum vouches for the pieces, but not for how many the header says there are.
type chunkReader struct {
	rest  []byte
	short bool // more was asked for than there was
}

// next is the next n bytes, or n zeros past the end.
func (r *chunkReader) next(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.short = nil, true
		return make([]byte, n)
	}
	piece := r.rest[:n]
	r.rest = r.rest[n:]
	return piece
}

// via rebuilds a route from its hosts with the present table.
func (r *chunkReader) via(t *engine.Table) *via {
	f := r.next(2 + 4)
	fact, n := engine.Fact(f[0]), int(f[1])
	v := &via{mx: binary.LittleEndian.Uint32(f[2:])}
	records := make([]engine.MX, n)
	for i := range records {
		records[i] = engine.MX{Preference: uint16(i), Host: string(r.next(int(r.next(1)[0])))}
	}
	if fact == engine.FactImplicit && n > 0 {
		v.Route = t.ImplicitRoute(records[0].Host)
	} else {
		v.Route = t.NewRoute(records)
	}
	return v
}
