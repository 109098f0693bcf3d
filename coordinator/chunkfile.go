package coordinator

import (
	"encoding/binary"
	"fmt"

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
	row, own := &r.batch[i], r.own[i]
	return ask{Number: row.Number, Attempt: row.Attempt, Flags: row.Flags, Suggestion: own.suggestion, Via: r.vias[own.via], Mailbox: row.Address.Mailbox()}
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
	if err := out.take(&group); err != nil {
		return nil, err
	}
	return out, nil
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
