package frames

import (
	"math"
	"slices"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// NewBatchFrame makes the message of a batch under a number. The message shares the strings of the batch.
func NewBatchFrame(b *wire.Batch, number uint64, hold time.Duration) *BatchFrame {
	f := &BatchFrame{Batch: number, Job: b.Job, Chunk: b.Chunk, Epoch: b.Epoch, Class: b.Class, Egress: b.Egress,
		MaxAgeNs: int64(b.MaxAge), NoSmtp: b.NoSMTP, StartedNs: unixNano(b.Started), HoldNs: int64(hold),
		Short: b.Short, LongBacklog: b.LongBacklog, Details: b.Details}
	n := len(b.Rows)
	f.Number, f.Route, f.Mailbox = make([]uint32, 0, n), make([]uint32, 0, n), make([]string, 0, n)
	f.Attempt, f.Flags = make([]byte, 0, n), make([]byte, 0, n)
	routes := map[*engine.Route]uint32{}
	for i := range b.Rows {
		row := &b.Rows[i]
		if len(b.Egress) > 1 {
			f.RowEgress = append(f.RowEgress, uint32(row.Egress))
		}
		at, ok := routes[row.Route]
		if !ok {
			at = uint32(len(f.Routes))
			routes[row.Route] = at
			f.Routes = append(f.Routes, newRouteFrame(row.Route, b.UsedByOthers[row.Route.Key]))
		}
		f.Number, f.Route = append(f.Number, row.Number), append(f.Route, at)
		f.Attempt, f.Flags = append(f.Attempt, row.Attempt), append(f.Flags, byte(row.Flags))
		f.Mailbox = append(f.Mailbox, row.Address.Mailbox())
	}
	return f
}

// Read reads the message of a batch. Row numbers are unique in what it returns; every row has a routable route.
func (f *BatchFrame) Read(table *engine.Table) (*wire.Batch, error) {
	n := len(f.GetNumber())
	if n > wire.MaxRows || len(f.GetAttempt()) != n || len(f.GetFlags()) != n || len(f.GetRoute()) != n ||
		len(f.GetMailbox()) != n {
		return nil, Malformed("a batch whose columns have %d, %d, %d, %d and %d rows; at most %d are allowed", n,
			len(f.GetAttempt()),
			len(f.GetFlags()), len(f.GetRoute()), len(f.GetMailbox()), wire.MaxRows)
	}
	if of := f.GetRowEgress(); len(of) != 0 && len(of) != n {
		return nil, Malformed("a batch of %d rows that says of %d which identity must ask them", n, len(of))
	}
	b := &wire.Batch{Job: f.GetJob(), Chunk: f.GetChunk(), Epoch: f.GetEpoch(), Class: f.GetClass(),
		Egress: f.GetEgress(),
		MaxAge: time.Duration(f.GetMaxAgeNs()), NoSMTP: f.GetNoSmtp(), Short: f.GetShort(),
		LongBacklog: f.GetLongBacklog(), Details: f.GetDetails(), Started: fromUnixNano(f.GetStartedNs()),
		Rows: make([]wire.Row, n)}
	routes := make([]*engine.Route, len(f.GetRoutes()))
	for i, r := range f.GetRoutes() {
		var err error
		if routes[i], err = r.read(table); err != nil {
			return nil, err
		}
		if e := r.readUse(); e.Used > 0 {
			if b.UsedByOthers == nil {
				b.UsedByOthers = map[string]wire.UsedByOthers{}
			}
			b.UsedByOthers[r.GetKey()] = e
		}
	}
	seen := make(map[uint32]struct{}, n)
	for i := range b.Rows {
		if int64(f.Route[i]) >= int64(len(routes)) {
			return nil, Malformed("row %d takes route %d of %d", i, f.Route[i], len(routes))
		}
		a, err := engine.Parse(f.Mailbox[i])
		if err != nil {
			return nil, Malformed("row %d is not an address", i)
		}
		b.Rows[i] = wire.Row{Number: f.Number[i], Attempt: f.Attempt[i], Flags: engine.Flags(f.Flags[i]), Address: a,
			Route: routes[f.Route[i]]}
		if len(f.GetRowEgress()) > 0 {
			of := f.GetRowEgress()[i]
			if of >= uint32(min(len(b.Egress), math.MaxUint16)) {
				return nil, Malformed("row %d takes identity %d of %d", i, of, len(b.Egress))
			}
			b.Rows[i].Egress = uint16(of)
		}
		seen[f.Number[i]] = struct{}{}
	}
	if len(seen) != n {
		return nil, Malformed("a batch that names a row twice")
	}
	return b, nil
}

// Returnable is the batch as far as its rows can be returned.
func (f *BatchFrame) Returnable() *wire.Batch {
	b := &wire.Batch{Job: f.GetJob(), Chunk: f.GetChunk(), Epoch: f.GetEpoch(), Class: f.GetClass()}
	for i, number := range f.GetNumber()[:min(len(f.GetNumber()), wire.MaxRows)] {
		row := wire.Row{Number: number}
		if i < len(f.GetAttempt()) {
			row.Attempt = f.Attempt[i]
		}
		b.Rows = append(b.Rows, row)
	}
	return b
}

// newRouteFrame makes the message of a route, with what other sources have used of it.
func newRouteFrame(r *engine.Route, used wire.UsedByOthers) *RouteFrame {
	f := &RouteFrame{Key: r.Key, Fact: uint32(r.Fact), Hosts: r.Hosts}
	if r.Provider != nil {
		f.Provider = r.Provider.ID
	}
	if slices.Equal(r.MX, r.Hosts) {
		f.MxIsHosts = true
	} else {
		f.Mx = r.MX
	}
	if used.Used > 0 {
		f.UsedByOthers = Count(used.Used)
		f.UsedByOthersMs = uint32(min(max(used.Left.Milliseconds(), 1), math.MaxInt32))
	}
	return f
}

// read makes the route. Its provider is looked up in the table that both sides have, so that no peer can give a
// receiver the budgets of another.
func (f *RouteFrame) read(table *engine.Table) (*engine.Route, error) {
	fact := engine.Fact(f.GetFact())
	if uint32(fact) != f.GetFact() || !fact.Routable() || f.GetKey() == "" || len(f.GetHosts()) == 0 ||
		len(f.GetHosts()) > maxHosts {
		return nil, Malformed("a route that leads nowhere")
	}
	r := &engine.Route{Key: f.GetKey(), Fact: fact, Hosts: f.GetHosts(), MX: f.GetMx(), Provider: table.Unknown}
	if id := f.GetProvider(); id != "" {
		r.Provider = table.Provider(id)
		if r.Provider == nil {
			return nil, Malformed("provider %q is in no row of our table", id)
		}
	}
	if f.GetMxIsHosts() {
		r.MX = r.Hosts
	}
	return r, nil
}

// maxHosts is how many hosts a route has at most.
const maxHosts = 16

// readUse reads what other sources have used of the route; no peer can make it last longer than the hour that it
// is about.
func (f *RouteFrame) readUse() wire.UsedByOthers {
	return wire.UsedByOthers{Used: int(f.GetUsedByOthers()),
		Left: min(time.Duration(f.GetUsedByOthersMs())*time.Millisecond, time.Hour)}
}
