package chunks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/zeebo/xxh3"

	"probity/coordinator/jobfiles"
	"probity/engine"
	"probity/prober/wire"
	"probity/prober/wire/press"
)

// Route is a route with its MX set as results show it. The rows of a domain share it.
type Route struct {
	engine.Route
	Mx string
}

// Row is one row that a prober must verify.
type Row struct {
	Number     uint32
	Attempt    uint8
	Flags      engine.Flags
	Suggestion string
	Route      *Route
	Mailbox    string
}

// LogEntry returns the log entry of an answered row, with its score at now. The flags are the row's own, not those of a
// cache.
func (r *Row) LogEntry(k jobfiles.Kind, v *engine.Verdict, now time.Time) jobfiles.Row {
	v.Flags = r.Flags
	if v.VerifiedAt.IsZero() {
		v.VerifiedAt = now
	}
	v.Score = engine.Score(v, now)
	row := jobfiles.Row{Number: r.Number, Kind: k, Verdict: v, Suggestion: r.Suggestion}
	if r.Route != nil {
		row.MX = r.Route.Mx
	}
	return row
}

const (
	chunkMagic     = 0x31686370 // "pch1"
	chunkHeader    = 4 + 4 + 4 + 8
	maxMXBytes     = 8 << 10 // longer MX sets are cut, as in the rows log
	rowHeaderBytes = 4 + 1 + 1 + 4 + 2 + 2
)

// ErrDamaged means a damaged chunk. The file is only scratch: the next try of the step makes all chunks again.
var ErrDamaged = errors.New("the scratch file of chunks is damaged")

// Rows is a chunk read from the file. It stays in memory until its last row has an answer.
type Rows struct {
	Batch       []wire.Row // in the order in which they are sent
	extra       []rowExtra // for each row, what is not sent to the prober
	routes      []*Route
	suggestions []string // of its rows; the first is empty
}

type rowExtra struct {
	suggestion uint32 // index in Rows.suggestions
	route      uint32
}

// Len returns the number of rows.
func (r *Rows) Len() int { return len(r.Batch) }

// RowAt returns a row as it was added to the chunk.
func (r *Rows) RowAt(i int) Row {
	row, own := &r.Batch[i], r.extra[i]
	return Row{Number: row.Number, Attempt: row.Attempt, Flags: row.Flags, Suggestion: r.suggestions[own.suggestion],
		Route: r.routes[own.route], Mailbox: row.Address.Mailbox()}
}

// unpack reads a chunk without the rows for which skip is true: they are answered already.
func unpack(b []byte, t *engine.Table, skip func(uint32) bool) (*Rows, error) {
	le := binary.LittleEndian
	if len(b) < chunkHeader || le.Uint32(b) != chunkMagic || le.Uint64(b[12:]) != xxh3.Hash(b[chunkHeader:]) {
		return nil, ErrDamaged
	}
	rows, routes := int(le.Uint32(b[4:])), int(le.Uint32(b[8:]))
	if rows > MaxRows || routes > rows {
		return nil, ErrDamaged
	}
	b = b[chunkHeader:]
	rowRoutes := make([]*Route, routes)
	r := reader{rest: b}
	for i := range rowRoutes {
		press.Yield(i)
		f := r.next(2 + 2)
		v := &Route{Mx: string(r.next(int(le.Uint16(f[2:]))))}
		records := make([]engine.MX, f[1])
		for k := range records {
			records[k] = engine.MX{Preference: uint16(k), Host: string(r.next(int(r.next(1)[0])))}
		}
		// The route is built with the current table.
		if engine.Fact(f[0]) == engine.FactImplicit && len(records) > 0 {
			v.Route = t.ImplicitRoute(records[0].Host)
		} else {
			v.Route = t.NewRoute(records)
		}
		rowRoutes[i] = v
		if r.short {
			return nil, ErrDamaged
		}
	}
	out := &Rows{Batch: make([]wire.Row, 0, rows), extra: make([]rowExtra, 0, rows), routes: rowRoutes,
		suggestions: []string{""}}
	var group textGroup
	for range rows {
		f := r.next(rowHeaderBytes)
		mailbox := r.next(int(le.Uint16(f[mailboxAt:])))
		suggestion := r.next(int(le.Uint16(f[suggestionAt:])))
		if r.short || int(le.Uint32(f[routeAt:])) >= len(rowRoutes) {
			return nil, ErrDamaged
		}
		if skip(le.Uint32(f)) {
			continue
		}
		press.Yield(out.Len() + len(group.rows))
		row := textRow{fixed: f}
		if len(suggestion) > 0 { // few rows have one, so equal ones are not merged
			row.suggestion = uint32(len(out.suggestions))
			out.suggestions = append(out.suggestions, string(suggestion))
		}
		group.text = append(group.text, mailbox...)
		row.end = len(group.text)
		group.rows = append(group.rows, row)
		if len(group.rows) < textRows {
			continue
		}
		if err := out.addRows(&group); err != nil {
			return nil, err
		}
	}
	if err := out.addRows(&group); err != nil {
		return nil, err
	}
	return out, nil
}

// textRows is how many rows of a chunk share one string for their mailboxes. A string for each row would be most of a
// chunk's objects for the garbage collector; one string for all rows would stay in memory as long as any one of them.
const textRows = 32

// textGroup is undecoded rows of a chunk, and the text of their mailboxes.
type textGroup struct {
	rows []textRow
	text []byte
}

type textRow struct {
	fixed      []byte
	end        int    // end of its mailbox in the text
	suggestion uint32 // index in Rows.suggestions; 0: none
}

// addRows adds the rows of a group and empties the group.
func (r *Rows) addRows(g *textGroup) error {
	le := binary.LittleEndian
	text, from := string(g.text), 0
	for _, row := range g.rows {
		f := row.fixed
		number, route := le.Uint32(f), le.Uint32(f[routeAt:])
		addr, err := engine.Parse(text[from:row.end])
		if err != nil {
			return fmt.Errorf("chunk row %d: %w: %w", number, ErrDamaged, err)
		}
		from = row.end
		r.Batch = append(r.Batch, wire.Row{Number: number, Attempt: f[4], Flags: engine.Flags(f[5]), Address: addr,
			Route: &r.routes[route].Route})
		r.extra = append(r.extra, rowExtra{row.suggestion, route})
	}
	g.rows, g.text = g.rows[:0], g.text[:0]
	return nil
}

// reader reads a chunk piece by piece. The checksum covers the pieces, but not the counts in the header.
type reader struct {
	rest  []byte
	short bool // a read went past the end
}

// next returns the next n bytes, or n zeros past the end.
func (r *reader) next(n int) []byte {
	if n > len(r.rest) {
		r.rest, r.short = nil, true
		return make([]byte, n)
	}
	piece := r.rest[:n]
	r.rest = r.rest[n:]
	return piece
}
