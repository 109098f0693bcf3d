package split

import (
	"time"

	"probity/coordinator/jobfiles"
)

// Deferred holds the unanswered rows that were deferred before this start of a job: when each is due, and from which
// egress source. It needs eight bytes for each row of a page with deferred rows, and is dropped once the job is split.
type Deferred struct {
	base    time.Time
	pages   map[uint32]*deferredPage
	sources []string          // by number; the first is empty
	numbers map[string]uint16 // index of sources
}

// NewDeferred makes one without rows.
func NewDeferred() *Deferred {
	return &Deferred{base: time.Now(), pages: map[uint32]*deferredPage{}, sources: []string{""},
		numbers: map[string]uint16{"": 0}}
}

const deferredPageRows = 4 << 10

type deferredPage [deferredPageRows]deferredRow

type deferredRow struct {
	due      uint32 // seconds since base, or 0: at once
	source   uint16
	attempt  uint8
	deferred bool
}

// Put records the last deferral of a row.
func (d *Deferred) Put(row uint32, what jobfiles.Deferral) {
	p := d.pages[row/deferredPageRows]
	if p == nil {
		p = new(deferredPage)
		d.pages[row/deferredPageRows] = p
	}
	due := uint32(0)
	if after := what.Due.Sub(d.base); !what.Due.IsZero() && after > 0 {
		due = uint32(min((after+time.Second-1)/time.Second, 1<<32-1))
	}
	source, ok := d.numbers[what.Source]
	if !ok && len(d.sources) < 1<<16 { // with more sources (no cluster has that many) any source may probe the row
		source = uint16(len(d.sources))
		d.numbers[what.Source] = source
		d.sources = append(d.sources, what.Source)
	}
	p[row%deferredPageRows] = deferredRow{due: due, source: source, attempt: what.Attempt, deferred: true}
}

// get returns the deferral of a row, or the zero value. A nil *Deferred has none.
func (d *Deferred) get(row uint32) jobfiles.Deferral {
	if d == nil {
		return jobfiles.Deferral{}
	}
	p := d.pages[row/deferredPageRows]
	if p == nil || !p[row%deferredPageRows].deferred {
		return jobfiles.Deferral{}
	}
	x := p[row%deferredPageRows]
	out := jobfiles.Deferral{Attempt: x.attempt, Source: d.sources[x.source]}
	if x.due > 0 {
		out.Due = d.base.Add(time.Duration(x.due) * time.Second)
	}
	return out
}
