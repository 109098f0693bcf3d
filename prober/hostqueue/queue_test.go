package hostqueue

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/budget"
)

// idleOwner is the owner of a set that asks no host.
type idleOwner struct{}

func (idleOwner) Advance(*Probe, time.Time, Place) {
	panic("no probe is to be moved")
}
func (idleOwner) Schedule(*Queue, budget.Priority)     {}
func (idleOwner) Emptied(*Queue)                       {}
func (idleOwner) Scaled(d time.Duration) time.Duration { return d }

// awaitingDecoy makes a domain with a row of the given priority that waits for its decoy.
func awaitingDecoy(q *Queue, priority budget.Priority) *Domain {
	d := &Domain{queue: q}
	d.AwaitDecoy(&Probe{Priority: priority}, time.Time{})
	return d
}

// takePendingDecoys empties the rings of pending decoys in the order in which they are asked.
func (q *Queue) takePendingDecoys() (all []*Domain) {
	for _, priority := range [...]budget.Priority{budget.Single, budget.ShortJob, budget.LongJob} {
		for r := &q.pendingDecoys[priority]; r.Len() > 0; {
			all = append(all, r.Pop())
		}
	}
	return all
}

// TestDecoysAreAskedByPriority: a decoy that a single call waits for comes first, that of a short job next, whatever
// was added before, and each priority's are counted.
func TestDecoysAreAskedByPriority(t *testing.T) {
	q := &Queue{set: &Set{Owner: idleOwner{}}}
	for _, priority := range [...]budget.Priority{budget.LongJob, budget.ShortJob, budget.LongJob, budget.ShortJob,
		budget.Single, budget.LongJob, budget.ShortJob} {
		awaitingDecoy(q, priority)
	}
	require.Equal(t, 1, q.pendingDecoysFor(budget.Single))
	require.Equal(t, 3, q.pendingDecoysFor(budget.ShortJob))
	var order []budget.Priority
	for _, d := range q.takePendingDecoys() {
		order = append(order, d.decoy.priority())
	}
	require.Equal(t, []budget.Priority{budget.Single, budget.ShortJob, budget.ShortJob, budget.ShortJob, budget.LongJob,
		budget.LongJob, budget.LongJob}, order)
}

// TestExpeditedDecoyIsFirst expedites one of several pending decoys: it comes before those of its old priority and
// after those of its new one; the others keep their order. A waiter of its own priority changes nothing.
func TestExpeditedDecoyIsFirst(t *testing.T) {
	for i := range 5 {
		q := &Queue{set: &Set{Owner: idleOwner{}}}
		first := awaitingDecoy(q, budget.Single)
		domainQueues := make([]*Domain, 5)
		for k := range domainQueues {
			domainQueues[k] = awaitingDecoy(q, budget.LongJob)
		}
		cut := &Domain{queue: q, decoy: decoy{tries: 1}} // in retryDecoys
		cut.AwaitDecoy(&Probe{Priority: budget.LongJob}, time.Time{})
		for range 2 {
			domainQueues[i].AwaitDecoy(&Probe{Priority: budget.ShortJob}, time.Time{})
			cut.AwaitDecoy(&Probe{Priority: budget.ShortJob}, time.Time{})
			first.AwaitDecoy(&Probe{Priority: budget.ShortJob}, time.Time{})
		}
		require.Equal(t, 2, q.pendingDecoysFor(budget.ShortJob))
		want := append([]*Domain{first, domainQueues[i]}, slices.Delete(slices.Clone(domainQueues), i, i+1)...)
		for k, d := range q.takePendingDecoys() {
			require.Same(t, want[k], d)
			want[k] = nil
		}
		require.Equal(t, make([]*Domain, 6), want)
	}
}

// TestUnprovenAnswersOfASingleCallAreOverdue: answers of jobs wait for the end of their connection, until a single call
// waits for one of them and nothing is left to ask for it.
func TestUnprovenAnswersOfASingleCallAreOverdue(t *testing.T) {
	q := &Queue{set: &Set{Owner: idleOwner{}}}
	joined := &Probe{Priority: budget.LongJob}
	u := Unproven{Finished: []Finished{{Probe: &Probe{Priority: budget.ShortJob}}, {Probe: joined}}}
	require.False(t, u.Overdue(q, 1))
	require.True(t, u.Overdue(q, maxUnproven))
	joined.Urge()
	require.True(t, u.Overdue(q, 1))
	awaitingDecoy(q, budget.Single)
	require.False(t, u.Overdue(q, 1), "its decoy is not asked yet")
}
