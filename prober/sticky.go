package prober

import "time"

// A tarpit answers who annoys it slower each time, until nothing is answered in time. Its replies are the warning: when they take
// far longer than they once did, it is left alone for a while, the longer the slower it has become. So it cools down about as fast
// as it is annoyed, and what it is asked meanwhile is what its budget allows.
const (
	stickyReply  = 5 * time.Second // of one reply: less is nobody's punishment
	stickyTimes  = 4               // and so many times the quickest that the host has shown
	stickyRests  = 10              // how many replies' time it is left alone
	mostStick    = 15 * time.Minute
	stuckReply   = 10 * time.Second // it is left alone for so long at once: the next replies would come too late, and its banner
	maxQuickness = maxDown          // hosts of a lane whose quickness is remembered
)

// unstick notes how long the replies of a transaction took, and leaves a host that turns into a tarpit alone. Wide providers have
// many machines behind a name: one that is slow is no punishment. The mutex is held.
func (h *hearing) unstick(took time.Duration) {
	l, host := h.l, h.s.group.host
	if len(h.s.seen) == 0 || l.provider.Wide {
		return
	}
	mean := took / time.Duration(len(h.s.seen))
	best, known := l.quick[host]
	switch {
	case !known && len(l.quick) >= maxQuickness:
		return
	case !known || mean < best:
		best = mean
		l.quick[host] = best
	}
	if mean < stickyReply || mean < stickyTimes*best {
		return
	}
	rest := min(stickyRests*mean, l.scaled(mostStick))
	if mean >= stuckReply {
		rest = l.scaled(mostStick)
	}
	h.s.leave = true
	l.pause(h.now.Add(rest))
}
