package coordinator

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

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

// packer gathers asks and writes them as a chunk.
type packer struct {
	vias   []*via
	index  map[*via]uint16
	rows   []byte
	starts []uint32
}

func (p *packer) len() int { return len(p.starts) }

// size is about the memory it holds.
func (p *packer) size() int { return len(p.rows) + 4*len(p.starts) + 64*len(p.vias) }

func (p *packer) add(a *ask) {
	at := p.via(a.Via)
	le := binary.LittleEndian
	p.starts = append(p.starts, uint32(len(p.rows)))
	p.rows = le.AppendUint32(p.rows, a.Number)
	p.rows = append(p.rows, a.Attempt, byte(a.Flags))
	p.rows = le.AppendUint16(p.rows, at) // at viaAt
	p.rows = le.AppendUint32(p.rows, a.Suggestion)
	p.rows = le.AppendUint16(p.rows, uint16(len(a.Mailbox)))
	p.rows = append(p.rows, a.Mailbox...)
}

// viaAt is where a row says which route it takes.
const viaAt = 4 + 1 + 1

// via is the number of a route among those of the chunk.
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

// pieces cuts the rows into parts of at most so many, each drawn from all of them: a bad stretch of a list does not become
// a bad chunk. Whole chunks are of some routes each, and hold nearly all of their rows: a cut may go through a route.
func (p *packer) pieces(most int, b *breather) []*packer {
	if p.len() <= most {
		return []*packer{p}
	}
	order := rand.Perm(p.len())
	if most >= wire.MaxRows {
		order = p.byRoute(order)
	}
	all := make([]*packer, 0, (p.len()+most-1)/most)
	named := make([]uint16, len(p.vias)) // the number of a route in the piece, plus one
	for from := 0; from < len(order); from += most {
		clear(named)
		all = append(all, p.piece(order, from, min(from+most, len(order)), named, b))
	}
	return all
}

// piece copies the rows of a part of the order.
func (p *packer) piece(order []int, from, to int, named []uint16, b *breather) *packer {
	le := binary.LittleEndian
	share := len(p.rows) / p.len() * (to - from)
	piece := &packer{starts: make([]uint32, 0, to-from), rows: make([]byte, 0, share+share/8)}
	for at := from; at < to; at++ {
		b.row(at)
		start := len(piece.rows)
		piece.starts = append(piece.starts, uint32(start))
		piece.rows = append(piece.rows, p.row(order[at])...)
		where := piece.rows[start+viaAt:]
		name := &named[le.Uint16(where)]
		if *name == 0 {
			piece.vias = append(piece.vias, p.vias[le.Uint16(where)])
			*name = uint16(len(piece.vias))
		}
		le.PutUint16(where, *name-1)
	}
	return piece
}

// byRoute brings the rows of each route together, the routes in any order.
func (p *packer) byRoute(order []int) []int {
	next := make([]int, len(p.vias)) // how many rows a route has, then where the next of them goes
	for i := range p.starts {
		next[p.viaOf(i)]++
	}
	at := 0
	for _, v := range rand.Perm(len(next)) {
		next[v], at = at, at+next[v]
	}
	sorted := make([]int, len(order))
	for _, i := range order {
		v := p.viaOf(i)
		sorted[next[v]] = i
		next[v]++
	}
	return sorted
}

// viaOf is the number of a row's route.
func (p *packer) viaOf(i int) uint16 { return binary.LittleEndian.Uint16(p.row(i)[viaAt:]) }

func (p *packer) row(i int) []byte {
	end := uint32(len(p.rows))
	if i+1 < len(p.starts) {
		end = p.starts[i+1]
	}
	return p.rows[p.starts[i]:end]
}

// appendChunk appends the chunk, its rows shuffled so that a bad stretch of a list does not burn a budget.
func (p *packer) appendChunk(dst []byte, rng *rand.Rand) []byte {
	le := binary.LittleEndian
	head := len(dst)
	dst = le.AppendUint32(dst, chunkMagic)
	dst = le.AppendUint32(dst, uint32(len(p.starts)))
	dst = le.AppendUint32(dst, uint32(len(p.vias)))
	dst = append(dst, make([]byte, 8)...)
	for _, v := range p.vias {
		dst = appendVia(dst, v)
	}
	for _, i := range rng.Perm(len(p.starts)) {
		dst = append(dst, p.row(i)...)
	}
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
	for range rows {
		f := r.next(askFixed)
		mailbox := r.next(int(le.Uint16(f[12:])))
		route := int(le.Uint16(f[6:]))
		if r.short || route >= len(vias) {
			return nil, errChunkFile
		}
		number := le.Uint32(f)
		if skip(number) {
			continue
		}
		rest.row(out.len())
		addr, err := engine.Parse(string(mailbox))
		if err != nil {
			return nil, fmt.Errorf("chunk row %d: %w: %w", number, errDamaged, err)
		}
		out.batch = append(out.batch, wire.Row{Number: number, Attempt: f[4], Flags: engine.Flags(f[5]), Address: addr, Route: &vias[route].Route})
		out.own = append(out.own, askOwn{le.Uint32(f[8:]), uint16(route)})
	}
	return out, nil
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
