package budget

import (
	"encoding/binary"
	"time"
)

// windowSlots is how finely a window is cut. Events are counted over one slot more than the window is long, so that
// any span of the window's length, however it lies across the slots, is inside what is counted. At the full rate
// 60/61 of the budget can be used.
const windowSlots = 60

// window counts events in a sliding span of time. An event is reserved before it happens and settled after it has: in
// between it counts without ageing. So the invariant holds by the receiver's clock too, which sees the event at some
// instant from its reservation to its settlement.
//
// Invariant: if reserve is never called for more than room, no span of the window's length holds more than limit
// events.
type window struct {
	slot     time.Duration
	epoch    time.Time // slot 0 begins here; its monotonic reading keeps clock steps out
	head     int64     // newest slot seen
	counts   []uint32  // ring of windowSlots+1, allocated at the first settlement
	used     int       // sum of counts
	reserved int       // reserved, not yet settled
}

func newWindow(span time.Duration, now time.Time) window {
	return window{slot: span / windowSlots, epoch: now}
}

// advance moves the head to now and forgets what has left the window. Time never runs backwards here.
func (w *window) advance(now time.Time) {
	at := floorDiv(now.Sub(w.epoch), w.slot)
	if at <= w.head {
		return
	}
	steps := min(at-w.head, int64(len(w.counts)))
	for i := int64(1); i <= steps; i++ {
		c := w.slotAt(w.head + i)
		w.used -= int(*c)
		*c = 0
	}
	w.head = at
}

func (w *window) slotAt(slot int64) *uint32 {
	n := int64(len(w.counts))
	return &w.counts[((slot%n)+n)%n]
}

func floorDiv(d, unit time.Duration) int64 {
	q := int64(d / unit)
	if d < 0 && d%unit != 0 {
		q--
	}
	return q
}

// room returns how many more events limit allows now.
func (w *window) room(limit int, now time.Time) int {
	w.advance(now)
	return max(0, limit-w.used-w.reserved)
}

// reserve takes n events from the budget until they are settled or given back.
func (w *window) reserve(n int) { w.reserved += n }

// release returns n reserved events that did not happen.
func (w *window) release(n int) { w.reserved = max(0, w.reserved-n) }

// settle records that n reserved events have happened by now.
func (w *window) settle(n int, now time.Time) {
	w.release(n)
	if n > 0 {
		w.advance(now)
		w.count(w.head, n)
	}
}

// count adds n events to a slot of the window.
func (w *window) count(slot int64, n int) {
	if w.counts == nil {
		w.counts = make([]uint32, windowSlots+1)
	}
	*w.slotAt(slot) += uint32(n)
	w.used += n
}

// nextRoom returns the time at which limit may allow one more event. Reservations are settled soon, most of them as
// events that did not happen.
func (w *window) nextRoom(limit int, now time.Time) time.Time {
	w.advance(now)
	if w.used+w.reserved < limit {
		return now
	}
	over := w.used - limit + 1
	for s := w.head - windowSlots; w.counts != nil && s <= w.head && over > 0; s++ {
		over -= int(*w.slotAt(s))
		if over <= 0 {
			return w.epoch.Add(time.Duration(s+windowSlots+1) * w.slot)
		}
	}
	return now.Add(min(w.slot, reservedWait))
}

// empty reports whether nothing counts any more.
func (w *window) empty(now time.Time) bool {
	w.advance(now)
	return w.used == 0 && w.reserved == 0
}

// usage returns how much of a window's limit is used or reserved now.
func (w *window) usage(limit int, now time.Time) Usage {
	if limit == 0 {
		return Usage{}
	}
	return Usage{Used: limit - w.room(limit, now), Limit: limit}
}

// append encodes the settled events as pairs of (age in slots, count).
func (w *window) append(dst []byte, now time.Time) []byte {
	w.advance(now)
	var pairs []byte
	n := uint64(0)
	for age := range w.counts { // windowSlots+1, or none
		if c := *w.slotAt(w.head - int64(age)); c > 0 {
			pairs = binary.AppendUvarint(binary.AppendUvarint(pairs, uint64(age)), uint64(c))
			n++
		}
	}
	return append(binary.AppendUvarint(dst, n), pairs...)
}

// read restores what append wrote `elapsed` ago. The window must be new. An event of age a slots lies, at the latest,
// a-1 slots before the writing; slot -(elapsed+a) of the new count ends no earlier than that.
func (w *window) read(src []byte, elapsed time.Duration) ([]byte, bool) {
	n, k := binary.Uvarint(src)
	if k <= 0 || n > windowSlots+1 {
		return nil, false
	}
	src = src[k:]
	passed := int64(max(0, elapsed) / w.slot)
	for ; n > 0; n-- {
		age, a := binary.Uvarint(src)
		if a <= 0 || age > windowSlots {
			return nil, false
		}
		count, b := binary.Uvarint(src[a:])
		if b <= 0 || count > 1<<31-1 {
			return nil, false
		}
		src = src[a+b:]
		if at := passed + int64(age); at <= windowSlots {
			w.count(-at, int(count))
		}
	}
	return src, true
}
