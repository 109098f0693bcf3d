package dispatch

import (
	"cmp"

	"probity/coordinator/chunks"
	"probity/engine"
	"probity/prober/wire"
)

const (
	windowsInFlight = 2   // windows of a class that may be in flight: the current one and the next
	minChunkRows    = 256 // least rows of a full chunk
	rowsPerPart     = 16  // of a full chunk, for each source: a node gets a part, which costs as much as many rows
)

// classBudgets says what the budgets of a class allow.
type classBudgets struct {
	table   func() *engine.Table
	sources func() int // egress sources; nil: unknown
}

// limitsOf returns the limits of a class, of one egress source, and how many sources probe it; of the tail, those of
// one route.
func (b *classBudgets) limitsOf(class string) (engine.Limits, int) {
	table := b.table()
	p := cmp.Or(table.Provider(class), table.Unknown)
	if b.sources == nil {
		return p.Limits, 1
	}
	return p.Limits, p.Sources(max(1, b.sources()))
}

// tailWindow is the window of the tail if it has few sources. Each of its rows may be a route of its own, which takes
// some kilobytes at the prober while it waits there for a connection.
const tailWindow = wire.MaxRows

// window returns how many rows of a class its budgets allow in about a minute; minUnanswered if the prober does not
// know its number of egress sources.
func (b *classBudgets) window(class string) int {
	if b.sources == nil {
		return minUnanswered
	}
	if class == chunks.ClassTail {
		return max(tailWindow, rowsPerPart/windowsInFlight*b.sources())
	}
	limits, sources := b.limitsOf(class)
	return wire.RowsPerMinute(limits, sources, limitsFor(b.sources()).unanswered)
}

// chunkRows returns how many rows make a full chunk of a class: no more than are soon probed, so that a chunk of a slow
// route does not fill the in-flight limit.
func (b *classBudgets) chunkRows(class string) int {
	most := wire.MaxRows
	if b.sources != nil {
		most = min(max(most, rowsPerPart*b.sources()), chunks.MaxRows)
	}
	return min(max(minChunkRows, windowsInFlight*b.window(class)), most)
}

// hours returns how many hours of budgets rows of a class need if all are refused; in the tail, rows of one route.
func (b *classBudgets) hours(class string, rows float64) float64 {
	if class == chunks.ClassTail {
		rows = min(rows, chunks.MaxTailRows)
	}
	limits, sources := b.limitsOf(class)
	if limits.RefusalsPerHour == 0 {
		return 0 // any number is allowed
	}
	return rows / float64(limits.RefusalsPerHour*sources)
}
