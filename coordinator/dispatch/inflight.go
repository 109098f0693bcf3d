package dispatch

import (
	"cmp"
	"time"
)

// Limits of what is in flight for all jobs together. They grow with the sources, so that none stands idle, and end
// where the memory of the coordinator does: a row in flight takes some hundred bytes, a chunk some kilobytes at each
// node that has rows of it.
const (
	minUnanswered    = 64 << 10 // unanswered rows of a few sources
	rowsPerSource    = 128      // of more: more than a source sends to its widest receiver in ten seconds
	maxUnanswered    = 512 << 10
	minChunks        = 1024 // chunks in flight of a few sources; of more, one for each
	maxChunks        = 4096
	rowsByUnanswered = 2 // rows of dispatched chunks, answered or not, for each that may be unanswered
)

// flightLimits are the limits for a number of sources.
type flightLimits struct {
	unanswered     int // unanswered rows; a class has less if its budgets allow less, see window
	dispatchedRows int // rows of dispatched chunks, answered or not; bounds memory
	chunks         int // dispatched chunks
}

func limitsFor(sources int) flightLimits {
	unanswered := min(max(minUnanswered, rowsPerSource*sources), maxUnanswered)
	return flightLimits{unanswered, rowsByUnanswered * unanswered, min(max(minChunks, sources), maxChunks)}
}

// recentInterval is how long a row counts as recent, rounded up to one or two intervals. An older row waits for a
// budget rather than for a processor.
const recentInterval = 2 * time.Second

// inFlightLimit counts the unanswered rows that were sent: all of them, and those of recent chunks. Rows that wait for
// budgets need a high limit, or slow routes leave nothing to others. Rows that wait for a processor need a lower one:
// more of them do not end earlier, and cost garbage collection.
type inFlightLimit struct {
	recentMax int // limit of recent rows; 0: that of all

	unanswered  int
	interval    int       // number of the current interval
	intervalEnd time.Time // end of the current interval
	recentRows  [2]int    // unanswered rows sent in the current and the previous interval, by its number modulo 2
}

// advance begins the interval of now.
func (i *inFlightLimit) advance(now time.Time) {
	if now.Before(i.intervalEnd) {
		return
	}
	if now.Sub(i.intervalEnd) >= recentInterval {
		i.recentRows = [2]int{}
		i.interval++
	}
	i.interval++
	i.recentRows[i.interval%2] = 0
	i.intervalEnd = now.Add(recentInterval)
}

// add counts the rows of a chunk that is sent, and returns its interval.
func (i *inFlightLimit) add(rows int, now time.Time) (interval int) {
	i.advance(now)
	i.unanswered += rows
	i.recentRows[i.interval%2] += rows
	return i.interval
}

// answered counts answers to rows that were sent in an interval.
func (i *inFlightLimit) answered(interval, rows int) {
	i.unanswered -= rows
	if i.interval-interval < len(i.recentRows) {
		i.recentRows[interval%2] -= rows
	}
}

// full reports whether no more rows may be sent, and for how long at most if none is answered; -1: until one is
// answered. At most unansweredMax rows may be unanswered.
func (i *inFlightLimit) full(unansweredMax int, now time.Time) (full bool, wait time.Duration) {
	i.advance(now)
	switch {
	case i.unanswered >= unansweredMax:
		return true, -1
	case i.recentRows[0]+i.recentRows[1] >= cmp.Or(i.recentMax, unansweredMax):
		return true, i.intervalEnd.Sub(now)
	}
	return false, -1
}
