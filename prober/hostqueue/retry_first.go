package hostqueue

import (
	"probity/prober/budget"
)

// A recipient whose connection was closed before its reply comes first on the next one; after the second time, first
// and alone. So a host that answers at least one recipient of each connection answers all, in whatever order they come.
// Otherwise chance would decide which recipients lose three connections, and the same list would not give the same
// result twice.
const isolateAfter = 2

// HasRetryFirst reports whether a recipient waits to be first on a connection.
func (q *Queue) HasRetryFirst() bool {
	return q.retryFirst.n+q.retryDecoys[budget.LongJob].Len()+q.retryDecoys[budget.ShortJob].Len()+
		q.retryDecoys[budget.Single].Len() > 0
}

// pendingDecoyCount returns how many decoys are pending.
func (q *Queue) pendingDecoyCount() int {
	return q.pendingDecoysFor(budget.LongJob) + q.pendingDecoysFor(budget.ShortJob) + q.pendingDecoysFor(budget.Single)
}

// addRetryFirst fills the first transaction of a connection with recipients that lost another connection. It reports
// one that goes alone.
func (f *filling) addRetryFirst(rooms [budget.NumPriorities]int) (isolated bool) {
	q := f.queue
	for q.retryFirst.n > 0 {
		p := q.retryFirst.first
		late := p.connectionLosses >= isolateAfter
		if len(f.g.Recipients) >= rooms[p.Priority] || !f.domainFits(p.domain) || late && len(f.g.Recipients) > 0 {
			break
		}
		f.addProbe(p)
		if late {
			return true
		}
	}
	for _, priority := range [...]budget.Priority{budget.Single, budget.ShortJob, budget.LongJob} {
		r := &q.retryDecoys[priority]
		for looked := r.Len(); looked > 0; looked-- {
			late := r.Peek().decoy.tries >= isolateAfter
			if late && len(f.g.Recipients) > 0 {
				return false
			}
			before := len(f.g.Recipients)
			f.addDecoys(r, 1, rooms[priority])
			if late && len(f.g.Recipients) > before {
				return true
			}
		}
	}
	return false
}
