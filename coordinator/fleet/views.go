package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"probity/prober/wire"
)

// ReadyQueueReport is a ready queue of a node, with its budget usage and what holds it back.
type ReadyQueueReport struct {
	Node string `json:"node"`
	wire.ReadyQueue
}

// TraceReport is a recent probe of a node: verdict, reply and rule.
type TraceReport struct {
	Node string `json:"node"`
	wire.Trace
}

// MaxTraces bounds the probes in one response.
const MaxTraces = wire.MaxViewItems

// TraceQuery selects probes; see wire.Query.
type TraceQuery = wire.Query

// Views is what operators can see and do at the nodes of a fleet, or at the one prober of this process.
type Views interface {
	// ReadyQueues are the most important queues of all nodes. Unreached are the nodes that did not answer.
	ReadyQueues(ctx context.Context) (queues []ReadyQueueReport, unreached []string)
	// Traces are recent probes, the newest first.
	Traces(ctx context.Context, q TraceQuery) (traces []TraceReport, unreached []string, err error)
	// EndQuarantine ends a quarantine. It reports whether there was one.
	EndQuarantine(ctx context.Context, node, egress, route string) (bool, error)
}

// ErrNoSuchNode is returned for an unknown node.
var ErrNoSuchNode = errors.New("no such node")

// viewTimeout is how long a node may take to answer.
const viewTimeout = 3 * time.Second

// ReadyQueues implements Views.
func (f *Fleet) ReadyQueues(ctx context.Context) (all []ReadyQueueReport, unreached []string) {
	all = []ReadyQueueReport{}
	unreached = f.forEachMember(ctx, func(ctx context.Context, m *member, locked func(func())) error {
		queues, err := m.client.ReadyQueues(ctx)
		locked(func() {
			for _, l := range queues {
				all = append(all, ReadyQueueReport{m.name, l})
			}
		})
		return err
	})
	slices.SortStableFunc(all, func(a, b ReadyQueueReport) int { return wire.CompareReadyQueues(&a.ReadyQueue, &b.ReadyQueue) })
	return all[:min(len(all), wire.MaxViewItems)], unreached
}

// Traces implements Views.
func (f *Fleet) Traces(ctx context.Context, q TraceQuery) (all []TraceReport, unreached []string, err error) {
	all = []TraceReport{}
	if err := q.Check(); err != nil {
		return nil, nil, err // of the query: no node is to blame
	}
	unreached = f.forEachMember(ctx, func(ctx context.Context, m *member, locked func(func())) error {
		traces, err := m.client.Traces(ctx, q)
		locked(func() {
			for _, t := range traces {
				all = append(all, TraceReport{m.name, t})
			}
		})
		return err
	})
	slices.SortStableFunc(all, func(a, b TraceReport) int { return b.At.Compare(a.At) })
	if q.Limit <= 0 || q.Limit > wire.MaxViewItems {
		q.Limit = wire.MaxViewItems
	}
	return all[:min(len(all), q.Limit)], unreached, nil
}

// forEachMember calls request for all nodes at once; locked runs one function at a time. Unreached are the nodes whose request failed.
func (f *Fleet) forEachMember(ctx context.Context, request func(ctx context.Context, m *member, locked func(func())) error) (unreached []string) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	var one sync.Mutex // guards unreached and what the functions run by locked use
	locked := func(do func()) { one.Lock(); defer one.Unlock(); do() }
	var asked sync.WaitGroup
	for _, m := range f.allMembers() {
		asked.Go(func() {
			if err := request(ctx, m, locked); err != nil {
				locked(func() { unreached = append(unreached, m.name) })
			}
		})
	}
	asked.Wait()
	slices.Sort(unreached)
	return unreached
}

func (f *Fleet) allMembers() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*member, 0, len(f.members))
	for _, m := range f.members {
		all = append(all, m)
	}
	return all
}

// EndQuarantine implements Views.
func (f *Fleet) EndQuarantine(ctx context.Context, node, egress, route string) (bool, error) {
	m := f.member(node)
	if m == nil {
		return false, fmt.Errorf("node %s: %w", node, ErrNoSuchNode)
	}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	return m.client.EndQuarantine(ctx, egress, route)
}

// An erasure reaches the caches of all known nodes: those that are reachable at once, the others when they are back (the Eraser stores
// them). A node that was absent for an hour before the erasure is not known: erase again when it is back.

// errNodesUnknown is returned until the coordinator has run long enough to know its nodes.
var errNodesUnknown = fmt.Errorf("the coordinator has run for less than %s and does not know its nodes yet", startDelay)

// Forget implements Caches.
func (f *Fleet) Forget(ctx context.Context, folded string, done func(node string) bool) (reached map[string]int, unreached []string, err error) {
	f.mu.Lock()
	started := f.started
	f.mu.Unlock()
	if started.IsZero() || time.Since(started) < startDelay {
		return nil, nil, errNodesUnknown
	}
	reached = map[string]int{}
	unreached = f.forEachMember(ctx, func(ctx context.Context, m *member, locked func(func())) error {
		if done(m.name) {
			return nil
		}
		was, err := m.client.Forget(ctx, folded)
		if err == nil {
			locked(func() { reached[m.name] = map[bool]int{true: 1}[was] })
		}
		return err
	})
	for _, n := range f.membership.Load().view.Nodes {
		if f.member(n.Name) == nil && !slices.Contains(unreached, n.Name) && !done(n.Name) {
			unreached = append(unreached, n.Name)
		}
	}
	return reached, unreached, nil
}

// Reachable implements Caches.
func (f *Fleet) Reachable(node string) bool {
	m := f.member(node)
	return m != nil && m.client.State().Live
}

// LocalViews is the Views of one prober in this process.
type LocalViews struct {
	Node  string
	Views wire.Views
}

// ReadyQueues implements Views.
func (a LocalViews) ReadyQueues(context.Context) ([]ReadyQueueReport, []string) {
	all := []ReadyQueueReport{}
	for _, l := range a.Views.ReadyQueues() {
		all = append(all, ReadyQueueReport{a.Node, l})
	}
	return all, nil
}

// Traces implements Views.
func (a LocalViews) Traces(_ context.Context, q TraceQuery) ([]TraceReport, []string, error) {
	traces, err := a.Views.Traces(q)
	all := []TraceReport{}
	for _, t := range traces {
		all = append(all, TraceReport{a.Node, t})
	}
	return all, nil, err
}

// EndQuarantine implements Views.
func (a LocalViews) EndQuarantine(_ context.Context, node, egress, route string) (bool, error) {
	if node != a.Node {
		return false, fmt.Errorf("node %s: %w", node, ErrNoSuchNode)
	}
	return a.Views.EndQuarantine(egress, route), nil
}
