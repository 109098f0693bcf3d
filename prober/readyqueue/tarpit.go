package readyqueue

import (
	"time"

	"probity/prober/budget"
)

// A tarpit answers more slowly the more errors it has seen, until no reply comes in time. Its replies are the warning: when
// they take far longer than its fastest, the host is paused, the longer the slower it is. So it recovers about as fast as it
// slows down, and what it is asked in between is what its budget allows. Before a long pause it is asked for the decoys of
// recipients that it has just accepted: after the pause nothing could confirm them (unconfirmed.go), and all would be asked
// again.
const maxTarpitPause = 15 * time.Minute

// detectTarpit records how long the replies of a transaction took, and pauses a host that has become a tarpit. Wide providers
// and those with tenants have many machines behind a name: one that is slow is no tarpit. The mutex is held.
func (rh *replyHandler) detectTarpit(took time.Duration) {
	q, host := rh.q, rh.s.hostQueue.host
	if len(rh.s.seen) == 0 || q.Provider.Shared() {
		return
	}
	rest := q.hostHealth.RecordReplyTime(host, took/time.Duration(len(rh.s.seen)), q.scaled(maxTarpitPause), rh.now)
	if rest == 0 {
		return
	}
	ours := q.tarpitPause || !rh.now.Before(q.notBefore)
	rh.s.lastTransaction = ours && rest >= q.scaled(confirmTime) && rh.worthLastTransaction()
	rh.s.closing = rh.s.closing || !rh.s.lastTransaction
	q.pause(rh.now.Add(rest))
	q.tarpitPause = ours
}

// worthConfirming is how many unconfirmed acceptances are worth a decoy that is not pending yet: it costs a refusal of the hour
// and a slow reply or two, but saves asking them all again.
const worthConfirming = 2

// worthLastTransaction reports a host that is worth a last transaction before it is paused for longer than an acceptance can
// wait for a refusal. The transaction has decoys only: the pending ones, which are of no use afterwards, else one, if several
// acceptances are unconfirmed. It returns false if this connection can send no more.
func (rh *replyHandler) worthLastTransaction() bool {
	s, hq := rh.s, rh.s.hostQueue
	if s.conn.Unusable() || s.mustClose(rh.now) {
		return false
	}
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.Lock()
		defer addrLimit.Unlock()
	}
	if n, d := s.room(budget.LongJob, rh.now); n == 0 && !d.Lease {
		return false
	}
	if hq.pendingNow() == 0 && rh.unconfirmed >= worthConfirming {
		rh.unconfirmedAt.requestDecoy()
	}
	return hq.pendingNow() > 0
}

// pendingNow is how many pending decoys an existing connection may send.
func (hq *hostQueue) pendingNow() int {
	return hq.pendingDecoys[budget.LongJob].n + hq.pendingDecoys[budget.ShortJob].n + hq.pendingDecoys[budget.Single].n
}
