package coordinator

import (
	"slices"

	"probity/engine"
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

// providerOf is whose budgets the rows of a class want; nil for the tail, which is many routes.
func (c *Coordinator) providerOf(class string) *engine.Provider {
	if class == classTail {
		return nil
	}
	table := c.table.Load()
	if p := table.Provider(class); p != nil {
		return p
	}
	return table.Unknown
}

// sourcesOf is how many identities ask a provider.
func (c *Coordinator) sourcesOf(p *engine.Provider) int {
	if s, ok := c.cfg.Prober.(sourced); ok {
		return p.Sources(max(1, s.Sources()))
	}
	return 1
}

// tailWindow is the window of the tail for the prober of this process. Each of its rows may be a route of its own, which takes some
// kilobytes at the prober while it waits there for a connection.
const tailWindow = wire.MaxRows

// window is how many rows of a class its budgets take in about a minute, were half of them refused; maxAsked where the prober
// does not say how many identities there are.
func (c *Coordinator) window(class string) int {
	p := c.providerOf(class)
	if _, ok := c.cfg.Prober.(sourced); !ok {
		return maxAsked
	}
	if p == nil {
		return tailWindow
	}
	rows, sources := maxAsked, c.sourcesOf(p)
	if n := p.Limits.RecipientsPerMinute; n > 0 {
		rows = min(rows, n*sources)
	}
	if n := p.Limits.RefusalsPerHour; n > 0 {
		rows = min(rows, 2*n*sources) // an hour's budget may be spent in a burst
	}
	return rows
}

// A backlog is long that keeps its budgets busy for a day, were a tenth of its rows refused: to spend each hour evenly takes an
// hour more for all of it, so a twenty-fourth at the most.
const (
	longBacklog = 24 // hours
	refusedOf   = 10
)

// steady reports a class whose hours are to be spent evenly, so that short jobs find some of each: its backlog, of all jobs, is
// long, or another class of the job will be busy for a day and longer than this one, were all of its rows refused.
func (d *desk) steady(l *live, class string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows := 0.0
	for _, one := range d.lives {
		if q := one.queues[class]; q != nil {
			rows += float64(q.rows+q.asked) * one.unsplit()
		}
	}
	most, longest := l.c.hours(class, rows), 0.0
	if most >= longBacklog*refusedOf {
		return true
	}
	for _, q := range l.queues {
		longest = max(longest, l.c.hours(q.class, float64(q.rows+q.asked)))
	}
	longest *= l.unsplit() / refusedOf
	return most > 0 && longest >= max(longBacklog, most+1)
}

// hours is how long the hourly budgets of a class last for so many rows, were all refused; in the tail, those of one route. The
// desk is locked.
func (c *Coordinator) hours(class string, rows float64) float64 {
	p := c.providerOf(class)
	if p == nil {
		p, rows = c.table.Load().Unknown, min(rows, ownBuffer)
	}
	if p.Limits.RefusalsPerHour == 0 {
		return 0
	}
	return rows / float64(p.Limits.RefusalsPerHour*c.sourcesOf(p))
}

// unsplit is how many times more rows the job has left than are at the desk, while it is split. The desk is locked.
func (l *live) unsplit() float64 {
	if l.split.Load() {
		return 1
	}
	rows := 0
	for _, q := range l.queues {
		rows += q.rows + q.asked
	}
	return max(1, float64(l.left())/float64(max(1, rows)))
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
