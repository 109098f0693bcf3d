package readyqueue

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/prober/budget"
)

// TestRing compares a ring with a slice: push adds at the end, moveLastToFront makes the newest the oldest.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring[int]
		var want []int
		for i := range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				r.push(i)
				want = append(want, i)
			case 2:
				r.push(i)
				r.moveLastToFront()
				want = slices.Insert(want, 0, i)
			default:
				if len(want) > 0 {
					require.Equal(t, want[0], r.peek())
					require.Equal(t, want[0], r.pop())
					want = want[1:]
				}
			}
			require.Equal(t, len(want), r.n)
		}
	})
}

// awaitingDecoy makes a domain queue with a row of the given priority that waits for its decoy.
func awaitingDecoy(hq *hostQueue, class budget.Class) *domainQueue {
	dq := &domainQueue{hostQueue: hq}
	dq.awaitDecoy(&Probe{Priority: class})
	return dq
}

// takePendingDecoys empties the rings of pending decoys in the order in which they are asked.
func (hq *hostQueue) takePendingDecoys() (all []*domainQueue) {
	for _, class := range [...]budget.Class{budget.Single, budget.ShortJob, budget.LongJob} {
		for r := &hq.pendingDecoys[class]; r.n > 0; {
			all = append(all, r.pop())
		}
	}
	return all
}

// TestDecoysAreAskedByPriority: a decoy that a single call waits for comes first, that of a short job next, whatever was added
// before, and each priority's are counted.
func TestDecoysAreAskedByPriority(t *testing.T) {
	hq := &hostQueue{queue: &Queue{}}
	for _, class := range [...]budget.Class{budget.LongJob, budget.ShortJob, budget.LongJob, budget.ShortJob, budget.Single, budget.LongJob, budget.ShortJob} {
		awaitingDecoy(hq, class)
	}
	require.Equal(t, 1, hq.pendingDecoysFor(budget.Single))
	require.Equal(t, 3, hq.pendingDecoysFor(budget.ShortJob))
	var order []budget.Class
	for _, dq := range hq.takePendingDecoys() {
		order = append(order, dq.decoy.priority())
	}
	require.Equal(t, []budget.Class{budget.Single, budget.ShortJob, budget.ShortJob, budget.ShortJob, budget.LongJob, budget.LongJob, budget.LongJob}, order)
}

// TestExpeditedDecoyIsFirst expedites one of several pending decoys: it comes before those of its old priority and after those of
// its new one; the others keep their order. A waiter of its own priority changes nothing.
func TestExpeditedDecoyIsFirst(t *testing.T) {
	for i := range 5 {
		hq := &hostQueue{queue: &Queue{}}
		first := awaitingDecoy(hq, budget.Single)
		domainQueues := make([]*domainQueue, 5)
		for k := range domainQueues {
			domainQueues[k] = awaitingDecoy(hq, budget.LongJob)
		}
		cut := &domainQueue{hostQueue: hq, decoy: decoy{tries: 1}} // in retryDecoys
		cut.awaitDecoy(&Probe{Priority: budget.LongJob})
		for range 2 {
			domainQueues[i].awaitDecoy(&Probe{Priority: budget.ShortJob})
			cut.awaitDecoy(&Probe{Priority: budget.ShortJob})
			first.awaitDecoy(&Probe{Priority: budget.ShortJob})
		}
		require.Equal(t, 2, hq.pendingDecoysFor(budget.ShortJob))
		want := append([]*domainQueue{first, domainQueues[i]}, slices.Delete(slices.Clone(domainQueues), i, i+1)...)
		for k, dq := range hq.takePendingDecoys() {
			require.Same(t, want[k], dq)
			want[k] = nil
		}
		require.Equal(t, make([]*domainQueue, 6), want)
	}
}
