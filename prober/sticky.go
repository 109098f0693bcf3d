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
	h.s.last = rest >= l.scaled(doubtLife) && !h.s.last && h.prove()
	h.s.leave = h.s.leave || !h.s.last
	l.pause(h.now.Add(rest))
}

// worthProving is how many acceptances in doubt are worth a decoy before their host is left alone for longer than they can be proved: a
// refusal of the hour, and one more slow reply, against asking them all again. (TestPunishers/stickier, means of 150 runs: 64 of its
// 300 rows are put off where 90 were, and the last is settled 11 minutes sooner; with 1 as many and no sooner, with 4 more.)
const worthProving = 2

// prove has a decoy asked of a host that is about to be left alone, on the connection that is there, if it is worth it. False where it
// is not, or where this connection can ask no more.
func (h *hearing) prove() bool {
	s := h.s
	if h.unsure < worthProving || s.leave || s.conn.Botched() {
		return false
	}
	if dest := s.dest; dest != nil {
		dest.mu.Lock()
		defer dest.mu.Unlock()
	}
	if n, _ := s.room(h.doubted.decoy.who(), h.now); n == 0 {
		return false
	}
	h.l.wantDecoy(h.doubted)
	return true
}
