package coordinator

import (
	"slices"

	"probity/prober/wire"
)

const (
	inHand    = 2   // windows of a class that may be under way: what is asked now, and what is next
	leastRows = 256 // of a chunk of one class
	openTurns = 4   // of so many turns, one is the oldest's
	lineView  = 1024
)

// sourced is a prober that knows from how many identities it asks.
type sourced interface{ Sources() int }

// window is how many rows of a class its budgets take in about a minute, were half of them refused; as many as anyone may ask
// for the tail, which is many routes, and where nobody says how many identities there are.
func (c *Coordinator) window(class string) int {
	s, ok := c.cfg.Prober.(sourced)
	if !ok || class == classTail {
		return maxAsked
	}
	table, sources := c.table.Load(), 1
	p := table.Provider(class)
	switch {
	case p == nil:
		p = table.Unknown
	case p.Wide:
		sources = max(1, s.Sources())
	}
	rows := maxAsked
	if n := p.Limits.RecipientsPerMinute; n > 0 {
		rows = min(rows, n*sources)
	}
	if n := p.Limits.RefusalsPerHour; n > 0 {
		rows = min(rows, 2*n*sources) // an hour's budget may be spent in a burst
	}
	return rows
}

// chunkRows is how many rows make a chunk of a class: no more than are soon asked, so that none of a slow route takes the room
// of others.
func (c *Coordinator) chunkRows(class string) int {
	return min(max(leastRows, inHand*c.window(class)), wire.MaxRows)
}

// popLine takes the class whose turn it is: the one whose rows will take the longest, so that it ends with the others; now and
// then the one that has waited longest. The desk is locked.
func (l *live) popLine() *queue {
	if len(l.line) == 0 {
		return nil
	}
	best := 0
	if l.turn++; l.turn%openTurns != 0 {
		longest := l.time(l.line[0])
		for i, q := range l.line[1:min(len(l.line), lineView)] {
			if t := l.time(q); t > longest {
				best, longest = i+1, t
			}
		}
	}
	q := l.line[best]
	l.line = slices.Delete(l.line, best, best+1)
	q.lined = false
	return q
}

// time is how many windows the rows of a class fill: about the minutes that they take. The desk is locked.
func (l *live) time(q *queue) float64 { return float64(q.rows) / float64(l.c.window(q.class)) }
