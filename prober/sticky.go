package prober

import "time"

// A tarpit answers who annoys it slower each time, until nothing is answered in time. Its replies are the warning: when they take
// far longer than they once did, it is left alone for a while, longer each time until it has cooled down.
const (
	stickyReply  = 5 * time.Second // of one reply: less is nobody's punishment
	stickyTimes  = 4               // and so many times the quickest that the host has shown
	leastStick   = time.Minute
	mostStick    = 15 * time.Minute
	maxQuickness = maxDown // hosts of a lane whose quickness is remembered
)

// quickness is how quick a host was at best, and how long it was left alone the last time that it was not.
type quickness struct {
	best time.Duration // of a transaction's mean reply
	rest time.Duration // zero while it is quick
}

// unstick notes how long the replies of a transaction took, and leaves a host that turns into a tarpit alone. Wide providers have
// many machines behind a name: one that is slow is no punishment. The mutex is held.
func (h *hearing) unstick(took time.Duration) {
	l, host := h.l, h.s.group.host
	if len(h.s.seen) == 0 || l.provider.Wide {
		return
	}
	mean := took / time.Duration(len(h.s.seen))
	q, known := l.quick[host]
	switch {
	case !known && len(l.quick) >= maxQuickness:
		return
	case !known || mean < q.best:
		q.best = mean
	}
	if mean < stickyReply || mean < stickyTimes*q.best {
		q.rest = 0
	} else {
		q.rest = min(max(2*q.rest, leastStick), mostStick)
		h.s.leave = true
		l.pause(h.now.Add(l.scaled(q.rest)))
	}
	l.quick[host] = q
}
