package prober

import (
	"time"

	"probity/engine"
)

// Who a connection was closed upon comes first on the next one, and when that has happened twice, first and alone. So a host
// that answers at least one recipient of each connection answers everyone, whatever the order in which they come: else who
// is cut off three times would be chance, and the same list would not give the same result twice.
const aloneAfter = 2

// cutOff notes that the probe was asked and the connection ended instead of answering.
func (p *probe) cutOff(e engine.Event) {
	p.cut++
	if e == engine.EventTimeout {
		p.cut++ // as it weighs in engine.Next
	}
}

// cutOff reports that somebody waits to be first on a connection.
func (g *group) cutOff() bool {
	return g.again.n+g.cutoff[bulk].n+g.cutoff[short].n+g.cutoff[single].n > 0
}

// decoys is how many are wanted.
func (g *group) decoys() int { return g.decoysFor(bulk) + g.decoysFor(short) + g.decoysFor(single) }

// again fills the first transaction of a connection with those who were cut off on others. It reports one that goes alone.
func (f *filler) again(rooms [priorities]int, now time.Time) (alone bool) {
	g := f.s.group
	if f.s.used.transactions > 0 {
		return false
	}
	for g.again.n > 0 {
		p := g.again.first
		late := p.cut >= aloneAfter
		if len(f.s.asks) >= rooms[p.who] || !f.fits(p.place.domain) || late && len(f.s.asks) > 0 {
			break
		}
		if f.probe(p); late {
			return true
		}
	}
	for _, who := range [...]priority{single, short, bulk} {
		r := &g.cutoff[who]
		for looked := r.n; looked > 0; looked-- {
			late := r.peek().decoy.tries >= aloneAfter
			if late && len(f.s.asks) > 0 {
				return false
			}
			before := len(f.s.asks)
			if f.decoys(r, 1, rooms[who], now); late && len(f.s.asks) > before {
				return true
			}
		}
	}
	return false
}
