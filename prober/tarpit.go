package prober

import "time"

// A tarpit answers who annoys it slower each time, until nothing is answered in time. Its replies are the warning: when they take
// far longer than they once did, it is left alone for a while, the longer the slower it has become. So it cools down about as fast
// as it is annoyed, and what it is asked meanwhile is what its budget allows. Before a long pause it is asked for the decoys that those
// wait for who have just been accepted: a pause later nothing could prove them (unconfirmed.go), and all would be asked again.
const (
	tarpitReply        = 5 * time.Second // of one reply: less is no punishment
	tarpitFactor       = 4               // and so many times the quickest that the host has shown
	tarpitPauseReplies = 10              // how many replies' time it is left alone
	maxTarpitPause     = 15 * time.Minute
	longTarpitReply    = 10 * time.Second // it is left alone for so long at once: the next replies would come too late, and its banner
	maxFastestReplies  = maxDown          // hosts of a ready queue whose quickness is remembered
)

// detectTarpit notes how long the replies of a transaction took, and leaves a host that turns into a tarpit alone. Wide providers and
// those with tenants have many machines behind a name: one that is slow is no punishment. The mutex is held.
func (rh *replyHandler) detectTarpit(took time.Duration) {
	q, host := rh.l, rh.s.hostQueue.host
	if len(rh.s.seen) == 0 || q.provider.Shared() {
		return
	}
	mean := took / time.Duration(len(rh.s.seen))
	best, known := q.fastestReply[host]
	switch {
	case !known && len(q.fastestReply) >= maxFastestReplies:
		return
	case !known || mean < best:
		best = mean
		set(&q.fastestReply, host, best)
	}
	if mean < tarpitReply || mean < tarpitFactor*best {
		return
	}
	rest := min(tarpitPauseReplies*mean, q.scaled(maxTarpitPause))
	if mean >= longTarpitReply {
		rest = q.scaled(maxTarpitPause)
	}
	ours := q.tarpitPause || !rh.now.Before(q.notBefore)
	rh.s.lastTransaction = ours && rest >= q.scaled(confirmTime) && rh.worthLastTransaction()
	rh.s.closing = rh.s.closing || !rh.s.lastTransaction
	q.pause(rh.now.Add(rest))
	q.tarpitPause = ours
}

// worthConfirming is how many unconfirmed acceptances are worth a decoy that is not wanted yet: a refusal of the hour and a slow reply or
// two, against asking them all again. (Counted in TestPunishingReceiversStayPatient/stickier: with 2 a third fewer rows are deferred than without; with 1 no
// fewer than with 2, and the last of them comes later.)
const worthConfirming = 2

// worthLastTransaction reports a host that is worth a last transaction before it is left alone for longer than an acceptance can be proved. It is of
// decoys alone: of those that are wanted, for they would be asked of no use afterwards, and else of one, where several are unconfirmed.
// False where this connection can ask no more.
func (rh *replyHandler) worthLastTransaction() bool {
	s, hq := rh.s, rh.s.hostQueue
	if s.conn.Unusable() || s.mustClose(rh.now) {
		return false
	}
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.mu.Lock()
		defer addrLimit.mu.Unlock()
	}
	if n, d := s.room(bulk, rh.now); n == 0 && !d.lease {
		return false
	}
	if hq.pendingNow() == 0 && rh.unconfirmed >= worthConfirming {
		rh.l.requestDecoy(rh.unconfirmedAt)
	}
	return hq.pendingNow() > 0
}

// pendingNow is how many decoys a connection that is there may be asked for.
func (hq *hostQueue) pendingNow() int {
	return hq.pendingDecoys[bulk].n + hq.pendingDecoys[short].n + hq.pendingDecoys[single].n
}
