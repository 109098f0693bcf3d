package readyqueue

import (
	"time"

	"probity/prober/budget"
)

// A recipient whose connection was closed before its reply comes first on the next one; after the second time, first and alone.
// So a host that answers at least one recipient of each connection answers all, in whatever order they come. Otherwise chance
// would decide which recipients lose three connections, and the same list would not give the same result twice.
const isolateAfter = 2

// hasRetryFirst reports that a recipient waits to be first on a connection.
func (hq *hostQueue) hasRetryFirst() bool {
	return hq.retryFirst.n+hq.retryDecoys[budget.LongJob].n+hq.retryDecoys[budget.ShortJob].n+hq.retryDecoys[budget.Single].n > 0
}

// pendingDecoyCount is how many decoys are pending.
func (hq *hostQueue) pendingDecoyCount() int {
	return hq.pendingDecoysFor(budget.LongJob) + hq.pendingDecoysFor(budget.ShortJob) + hq.pendingDecoysFor(budget.Single)
}

// addRetryFirst fills the first transaction of a connection with recipients that lost another connection. It reports one that
// goes alone.
func (tb *transactionBuilder) addRetryFirst(rooms [budget.NumClasses]int, now time.Time) (isolated bool) {
	hq := tb.s.hostQueue
	for hq.retryFirst.n > 0 {
		p := hq.retryFirst.first
		late := p.connectionLosses >= isolateAfter
		if len(tb.s.recipients) >= rooms[p.Priority] || !tb.domainFits(p.domainQueue.domain) || late && len(tb.s.recipients) > 0 {
			break
		}
		if tb.addProbe(p); late {
			return true
		}
	}
	for _, class := range [...]budget.Class{budget.Single, budget.ShortJob, budget.LongJob} {
		r := &hq.retryDecoys[class]
		for looked := r.n; looked > 0; looked-- {
			late := r.peek().decoy.tries >= isolateAfter
			if late && len(tb.s.recipients) > 0 {
				return false
			}
			before := len(tb.s.recipients)
			if tb.addDecoys(r, 1, rooms[class], now); late && len(tb.s.recipients) > before {
				return true
			}
		}
	}
	return false
}
