package referee

import (
	"cmp"
	"slices"
)

// Report is the referee's report, as GET /referee returns it.
type Report struct {
	Connections int64      `json:"connections"`
	Recipients  int64      `json:"recipients"`
	Refused     int64      `json:"refused"`
	Excesses    int64      `json:"excesses"`
	Blocks      int64      `json:"blocks"`   // how often a receiver began to block a source for its behaviour
	Silences    int64      `json:"silences"` // how often a receiver began to accept every recipient instead
	By          []Entry    `json:"by"`       // the excesses
	Peaks       []Entry    `json:"peaks"`    // the highest value of each limited kind, whether within the limit or not
	Routes      []RouteUse `json:"routes"`   // the narrow routes and the tenants, over all sources
}

// Entry is the use of one kind of limit of one persona by one source. With
// several clusters of a persona, Count is their sum and Seen the highest.
type Entry struct {
	Persona string `json:"persona"` // or the provider's id
	Source  string `json:"source"`
	Kind    string `json:"kind"`
	Count   int    `json:"count"` // times exceeded
	Limit   int    `json:"limit"`
	Seen    int    `json:"seen"`
}

// Report returns the counts so far.
func (r *Referee) Report() Report {
	rep := Report{By: []Entry{}, Peaks: []Entry{}, Routes: []RouteUse{}}
	entries := map[Entry]*Entry{} // by persona, source and kind
	for key, m := range r.snapshot() {
		m.mu.Lock()
		rep.Connections += m.connections
		rep.Recipients += m.recipients
		rep.Refused += m.refused
		rep.Blocks += m.blocks
		rep.Silences += m.silences
		for kind, t := range m.tallies {
			if limitOf(&m.limits, kind) > 0 {
				addEntry(entries, key, kind, limitOf(&m.limits, kind), t)
			}
		}
		m.mu.Unlock()
	}
	for _, e := range entries {
		rep.Peaks = append(rep.Peaks, *e)
		if e.Count > 0 {
			rep.By = append(rep.By, *e)
			rep.Excesses += int64(e.Count)
		}
	}
	r.reportRoutes(&rep)
	slices.SortFunc(rep.By, compareEntries)
	slices.SortFunc(rep.Peaks, compareEntries)
	return rep
}

// snapshot copies the map of meters, not the meters.
func (r *Referee) snapshot() map[meterKey]*meter {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[meterKey]*meter, len(r.meters))
	for key, m := range r.meters {
		all[key] = m
	}
	return all
}

// addEntry adds one tally to the entry of its persona, source and kind.
func addEntry(entries map[Entry]*Entry, key meterKey, kind, limit int, t tally) {
	id := Entry{Persona: key.persona, Source: key.source.String(), Kind: kindName(kind)}
	e := entries[id]
	if e == nil {
		fresh := id
		fresh.Limit = limit
		e = &fresh
		entries[id] = e
	}
	e.Count += t.count
	e.Seen = max(e.Seen, t.seen)
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Persona, b.Persona), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Kind, b.Kind))
}
