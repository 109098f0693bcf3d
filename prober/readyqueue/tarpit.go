package readyqueue

import (
	"time"

	"probity/prober/budget"
	"probity/prober/hostqueue"
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
	q, host := rh.q, rh.s.hostQueue.Name
	if len(rh.s.seen) == 0 || q.Provider.Shared() {
		return
	}
	rest := q.hostHealth.RecordReplyTime(host, took/time.Duration(len(rh.s.seen)), q.scaled(maxTarpitPause), rh.Now)
	if rest == 0 {
		return
	}
	ours := q.hold.Tarpit || !rh.Now.Before(q.hold.SendAt)
	rh.s.lastTransaction = ours && rest >= q.scaled(hostqueue.ConfirmTime) && rh.worthLastTransaction()
	rh.s.closing = rh.s.closing || !rh.s.lastTransaction
	q.hold.Pause(rh.Now.Add(rest))
	q.hold.Tarpit = ours
}

// worthLastTransaction reports a host that is worth a last transaction before it is paused for longer than an acceptance can
// wait for a refusal. The transaction has decoys only: the pending ones, which are of no use afterwards, else one, if several
// acceptances are unconfirmed. It returns false if this connection can send no more.
func (rh *replyHandler) worthLastTransaction() bool {
	s := rh.s
	if s.conn.Unusable() || s.mustClose(rh.Now) {
		return false
	}
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.Lock()
		defer addrLimit.Unlock()
	}
	if n, d := s.room(budget.LongJob, rh.Now); n == 0 && !d.Lease {
		return false
	}
	return rh.RequestLastDecoys()
}
