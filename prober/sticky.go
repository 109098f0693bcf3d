package prober

import "time"

// A tarpit answers who annoys it slower each time, until nothing is answered in time. Its replies are the warning: when they take
// far longer than they once did, it is left alone for a while, the longer the slower it has become. So it cools down about as fast
// as it is annoyed, and what it is asked meanwhile is what its budget allows. Before a long rest it is asked for the decoys that those
// wait for who have just been accepted: a rest later nothing could prove them (doubt.go), and all would be asked again.
const (
	stickyReply  = 5 * time.Second // of one reply: less is no punishment
	stickyTimes  = 4               // and so many times the quickest that the host has shown
	stickyRests  = 10              // how many replies' time it is left alone
	mostStick    = 15 * time.Minute
	stuckReply   = 10 * time.Second // it is left alone for so long at once: the next replies would come too late, and its banner
	maxQuickness = maxDown          // hosts of a lane whose quickness is remembered
)

// unstick notes how long the replies of a transaction took, and leaves a host that turns into a tarpit alone. Wide providers and
// those with tenants have many machines behind a name: one that is slow is no punishment. The mutex is held.
func (h *hearing) unstick(took time.Duration) {
	l, host := h.l, h.s.group.host
	if len(h.s.seen) == 0 || l.provider.Shared() {
		return
	}
	mean := took / time.Duration(len(h.s.seen))
	best, known := l.quick[host]
	switch {
	case !known && len(l.quick) >= maxQuickness:
		return
	case !known || mean < best:
		best = mean
		set(&l.quick, host, best)
	}
	if mean < stickyReply || mean < stickyTimes*best {
		return
	}
	rest := min(stickyRests*mean, l.scaled(mostStick))
	if mean >= stuckReply {
		rest = l.scaled(mostStick)
	}
	ours := l.stuck || !h.now.Before(l.notBefore)
	h.s.farewell = ours && rest >= l.scaled(doubtLife) && h.prove()
	h.s.leave = h.s.leave || !h.s.farewell
	l.pause(h.now.Add(rest))
	l.stuck = ours
}

// worthProving is how many acceptances in doubt are worth a decoy that is not wanted yet: a refusal of the hour and a slow reply or
// two, against asking them all again. (Counted in TestPunishers/stickier: with 2 a third fewer rows are put off than without; with 1 no
// fewer than with 2, and the last of them comes later.)
const worthProving = 2

// prove reports a host that is worth a last transaction before it is left alone for longer than an acceptance can be proved. It is of
// decoys alone: of those that are wanted, for they would be asked of no use afterwards, and else of one, where several are in doubt.
// False where this connection can ask no more.
func (h *hearing) prove() bool {
	s, g := h.s, h.s.group
	if s.conn.Botched() || s.over(h.now) {
		return false
	}
	if dest := s.dest; dest != nil {
		dest.mu.Lock()
		defer dest.mu.Unlock()
	}
	if n, d := s.room(bulk, h.now); n == 0 && !d.lease {
		return false
	}
	if g.wantedNow() == 0 && h.undecided >= worthProving {
		h.l.wantDecoy(h.undecidedAt)
	}
	return g.wantedNow() > 0
}

// wantedNow is how many decoys a connection that is there may be asked for.
func (g *group) wantedNow() int { return g.wanted[bulk].n + g.wanted[short].n + g.wanted[single].n }
