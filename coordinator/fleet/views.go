package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
func (f *Fleet) ReadyQueues(ctx context.Context) ([]ReadyQueueReport, []string) {
	all, unreached := askNodes(ctx, f, func(ctx context.Context, m *member) ([]ReadyQueueReport, error) {
		queues, err := m.client.ReadyQueues(ctx)
		return queueReports(m.name, queues), err
	})
	slices.SortStableFunc(all, func(a, b ReadyQueueReport) int {
		return wire.CompareReadyQueues(&a.ReadyQueue,
			&b.ReadyQueue)
	})
	return all[:min(len(all), wire.MaxViewItems)], unreached
}

func queueReports(node string, queues []wire.ReadyQueue) []ReadyQueueReport {
	all := make([]ReadyQueueReport, 0, len(queues))
	for _, q := range queues {
		all = append(all, ReadyQueueReport{node, q})
	}
	return all
}

// Traces implements Views.
func (f *Fleet) Traces(ctx context.Context, q TraceQuery) ([]TraceReport, []string, error) {
	if err := q.Check(); err != nil {
		return nil, nil, err // of the query: no node is to blame
	}
	all, unreached := askNodes(ctx, f, func(ctx context.Context, m *member) ([]TraceReport, error) {
		traces, err := m.client.Traces(ctx, q)
		return traceReports(m.name, traces), err
	})
	slices.SortStableFunc(all, func(a, b TraceReport) int { return b.At.Compare(a.At) })
	if q.Limit <= 0 || q.Limit > wire.MaxViewItems {
		q.Limit = wire.MaxViewItems
	}
	return all[:min(len(all), q.Limit)], unreached, nil
}

func traceReports(node string, traces []wire.Trace) []TraceReport {
	all := make([]TraceReport, 0, len(traces))
	for _, t := range traces {
		all = append(all, TraceReport{node, t})
	}
	return all
}

// askNodes asks all nodes at once and joins their answers. Unreached are the nodes that failed.
func askNodes[T any](ctx context.Context, f *Fleet,
	ask func(context.Context, *member) ([]T, error)) (all []T, unreached []string) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	var one sync.Mutex // guards the results
	all = []T{}
	var asked sync.WaitGroup
	for _, m := range f.allMembers() {
		asked.Go(func() {
			answers, err := ask(ctx, m)
			one.Lock()
			defer one.Unlock()
			all = append(all, answers...)
			if err != nil {
				unreached = append(unreached, m.name)
			}
		})
	}
	asked.Wait()
	slices.Sort(unreached)
	return all, unreached
}

func (f *Fleet) allMembers() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.members))
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

// An erasure reaches the caches of all known nodes: those that are reachable at once, the others when they are back
// (the Eraser stores them). A node that was absent for an hour before the erasure is not known: erase again when it is
// back.

// errNodesUnknown is returned until the coordinator has run long enough to know its nodes.
var errNodesUnknown = fmt.Errorf("the coordinator has run for less than %s and does not know its nodes yet", startDelay)

// Forget implements Caches.
func (f *Fleet) Forget(ctx context.Context, folded string,
	done func(node string) bool) (reached map[string]int, unreached []string, err error) {
	f.mu.Lock()
	started := f.started
	f.mu.Unlock()
	if started.IsZero() || time.Since(started) < startDelay {
		return nil, nil, errNodesUnknown
	}
	type answer struct {
		node    string
		entries int
	}
	answers, unreached := askNodes(ctx, f, func(ctx context.Context, m *member) ([]answer, error) {
		if done(m.name) {
			return nil, nil
		}
		was, err := m.client.Forget(ctx, folded)
		if err != nil {
			return nil, err
		}
		return []answer{{m.name, map[bool]int{true: 1}[was]}}, nil
	})
	reached = map[string]int{}
	for _, a := range answers {
		reached[a.node] = a.entries
	}
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
func (l LocalViews) ReadyQueues(context.Context) ([]ReadyQueueReport, []string) {
	return queueReports(l.Node, l.Views.ReadyQueues()), nil
}

// Traces implements Views.
func (l LocalViews) Traces(_ context.Context, q TraceQuery) ([]TraceReport, []string, error) {
	traces, err := l.Views.Traces(q)
	return traceReports(l.Node, traces), nil, err
}

// EndQuarantine implements Views.
func (l LocalViews) EndQuarantine(_ context.Context, node, egress, route string) (bool, error) {
	if node != l.Node {
		return false, fmt.Errorf("node %s: %w", node, ErrNoSuchNode)
	}
	return l.Views.EndQuarantine(egress, route), nil
}
