package prober

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRing compares a ring with a slice: push adds at the end, pushFront at the front.
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
				r.pushFront(i)
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
func awaitingDecoy(q *readyQueue, hq *hostQueue, class priority) *domainQueue {
	dq := &domainQueue{hostQueue: hq}
	q.awaitDecoy(&probe{priority: class}, dq)
	return dq
}

// takePendingDecoys empties the rings of pending decoys in the order in which they are asked.
func (hq *hostQueue) takePendingDecoys() (all []*domainQueue) {
	for _, class := range [...]priority{single, short, bulk} {
		for r := &hq.pendingDecoys[class]; r.n > 0; {
			all = append(all, r.pop())
		}
	}
	return all
}

// TestDecoysAreAskedByPriority: a decoy that a single call waits for comes first, that of a short job next, whatever was added
// before, and each priority's are counted.
func TestDecoysAreAskedByPriority(t *testing.T) {
	q, hq := &readyQueue{}, &hostQueue{}
	for _, class := range [...]priority{bulk, short, bulk, short, single, bulk, short} {
		awaitingDecoy(q, hq, class)
	}
	require.Equal(t, 1, hq.pendingDecoysFor(single))
	require.Equal(t, 3, hq.pendingDecoysFor(short))
	var order []priority
	for _, dq := range hq.takePendingDecoys() {
		order = append(order, dq.decoy.priority())
	}
	require.Equal(t, []priority{single, short, short, short, bulk, bulk, bulk}, order)
}

// TestExpeditedDecoyIsFirst expedites one of several pending decoys: it comes before those of its old priority and after those of
// its new one; the others keep their order. A waiter of its own priority changes nothing.
func TestExpeditedDecoyIsFirst(t *testing.T) {
	for i := range 5 {
		q, hq := &readyQueue{}, &hostQueue{}
		first := awaitingDecoy(q, hq, single)
		domainQueues := make([]*domainQueue, 5)
		for k := range domainQueues {
			domainQueues[k] = awaitingDecoy(q, hq, bulk)
		}
		cut := &domainQueue{hostQueue: hq, decoy: decoy{tries: 1}} // in retryDecoys
		q.awaitDecoy(&probe{priority: bulk}, cut)
		for range 2 {
			q.awaitDecoy(&probe{priority: short}, domainQueues[i])
			q.awaitDecoy(&probe{priority: short}, cut)
			q.awaitDecoy(&probe{priority: short}, first)
		}
		require.Equal(t, 2, hq.pendingDecoysFor(short))
		want := append([]*domainQueue{first, domainQueues[i]}, slices.Delete(slices.Clone(domainQueues), i, i+1)...)
		for k, dq := range hq.takePendingDecoys() {
			require.Same(t, want[k], dq)
			want[k] = nil
		}
		require.Equal(t, make([]*domainQueue, 6), want)
	}
}
