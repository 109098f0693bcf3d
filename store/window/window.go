package window

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// Limit allows N events in any span of Per: a sliding window, not a calendar one.
type Limit struct {
	N   int
	Per time.Duration
}

// Decision is the answer to "may this event happen now".
type Decision struct {
	OK         bool
	Limit      int           // events allowed in the strictest window
	Per        time.Duration // its span
	Remaining  int           // events still allowed now, without this one
	Reset      time.Duration // until the oldest counted event leaves the window, so that one more is allowed
	RetryAfter time.Duration // if not OK: until the event would be allowed, at least a second; else 0
}

// maxExactMarks bounds the marks of a window. Up to this limit each event has its own time and the window is exact;
// above it, events are grouped by 1/maxExactMarks of the span and count until the youngest of the group leaves the
// window: it never allows too many, but may delay one for up to that fraction of the span.
const maxExactMarks = 1024

// mark is n events, the youngest of them at the time at (unix nanoseconds).
type mark struct {
	at int64
	n  uint32
}

// Window is the events that a limit counts, oldest first. The zero value is empty. It is not safe for concurrent use.
type Window struct {
	marks []mark
	total int // of all marks
}

// Peek checks one event at now without counting it. It drops the marks that have left the window, and moves marks from
// the future (the clock was set back) to now, so that none lasts longer than a span.
func (w *Window) Peek(l Limit, now time.Time) Decision {
	at := now.UnixNano()
	for i := len(w.marks) - 1; i >= 0 && w.marks[i].at > at; i-- {
		w.marks[i].at = at
	}
	out := 0
	for out < len(w.marks) && w.marks[out].at+int64(l.Per) <= at {
		w.total -= int(w.marks[out].n)
		out++
	}
	w.marks = slices.Delete(w.marks, 0, out)
	used := w.total
	d := Decision{OK: used < l.N, Limit: l.N, Per: l.Per, Remaining: max(l.N-used-1, 0)}
	if d.OK {
		d.Reset = l.Per
		if len(w.marks) > 0 {
			d.Reset = w.freeAfter(l, at, 1)
		}
		return d
	}
	d.RetryAfter = max(w.freeAfter(l, at, used-l.N+1), time.Second)
	d.Reset = d.RetryAfter
	return d
}

// freeAfter is the time until the n oldest events have left the window; the whole span if it has fewer (a limit of 0).
func (w *Window) freeAfter(l Limit, now int64, n int) time.Duration {
	for _, m := range w.marks {
		n -= int(m.n)
		if n <= 0 {
			return time.Duration(m.at + int64(l.Per) - now)
		}
	}
	return l.Per
}

// Add counts one event at now.
func (w *Window) Add(l Limit, now time.Time) {
	at := now.UnixNano()
	w.total++
	if last := len(w.marks) - 1; last >= 0 {
		m, shared := &w.marks[last], int64(l.Per)/maxExactMarks
		if at <= m.at || (l.N > maxExactMarks && at/shared == m.at/shared) {
			m.n++
			m.at = max(m.at, at)
			return
		}
	}
	w.marks = append(w.marks, mark{at, 1})
}

// Allow checks one event and counts it if it is allowed.
func (w *Window) Allow(l Limit, now time.Time) Decision {
	d := w.Peek(l, now)
	if d.OK {
		w.Add(l, now)
	}
	return d
}

// Stricter is the decision for a caller under both limits: a refusal before a permission, the longer wait of two
// refusals, the smaller Remaining of two permissions.
func Stricter(a, b Decision) Decision {
	switch {
	case a.OK != b.OK:
		if a.OK {
			return b
		}
		return a
	case !a.OK && b.RetryAfter > a.RetryAfter, a.OK && b.Remaining < a.Remaining:
		return b
	}
	return a
}

// markSize is the size of a stored mark: time and number, big-endian.
const markSize = 12

// ErrDamaged is the error of a stored window that Read does not accept.
var ErrDamaged = errors.New("a stored window is damaged")

// AppendTo appends the window in its stored form.
func (w *Window) AppendTo(dst []byte) []byte {
	for _, m := range w.marks {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.at))
		dst = binary.BigEndian.AppendUint32(dst, m.n)
	}
	return dst
}

// Read reads what AppendTo wrote.
func Read(v []byte) (Window, error) {
	if len(v)%markSize != 0 || len(v)/markSize > 2*maxExactMarks {
		return Window{}, ErrDamaged
	}
	w := Window{marks: make([]mark, 0, len(v)/markSize+1)}
	for ; len(v) > 0; v = v[markSize:] {
		m := mark{int64(binary.BigEndian.Uint64(v)), binary.BigEndian.Uint32(v[8:])}
		if m.n == 0 || (len(w.marks) > 0 && m.at < w.marks[len(w.marks)-1].at) {
			return Window{}, ErrDamaged
		}
		w.marks = append(w.marks, m)
		w.total += int(m.n)
	}
	return w, nil
}
