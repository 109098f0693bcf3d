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

// LaneReport is a lane of a node, with what it has used of its budgets and what holds it back.
type LaneReport struct {
	Node string `json:"node"`
	wire.Lane
}

// TraceReport is a probe that a node made lately, from its verdict to the reply and the rule.
type TraceReport struct {
	Node string `json:"node"`
	wire.Trace
}

// MaxTraces bounds the probes of one answer.
const MaxTraces = wire.MaxSight

// TraceQuery says which probes are wanted; see wire.Query.
type TraceQuery = wire.Query

// Sights is what nodes let people see and do: a fleet's, or those of the one prober of this process.
type Sights interface {
	// Lanes are those that matter most of all nodes. Mute are the nodes that could not be asked.
	Lanes(ctx context.Context) (lanes []LaneReport, mute []string)
	// Traces are probes that were made lately, the newest first.
	Traces(ctx context.Context, q TraceQuery) (traces []TraceReport, mute []string, err error)
	// Release ends a quarantine. It reports whether there was one.
	Release(ctx context.Context, node, egress, route string) (bool, error)
}

// ErrNoSuchNode is returned for a node that is not known.
var ErrNoSuchNode = errors.New("no such node")

// sightPatience is how long a node may take to show something.
const sightPatience = 3 * time.Second

// Lanes implements Sights.
func (f *Fleet) Lanes(ctx context.Context) (all []LaneReport, mute []string) {
	all = []LaneReport{}
	mute = f.each(ctx, func(ctx context.Context, m *member, put func(func())) error {
		lanes, err := m.client.Lanes(ctx)
		put(func() {
			for _, l := range lanes {
				all = append(all, LaneReport{m.name, l})
			}
		})
		return err
	})
	slices.SortStableFunc(all, func(a, b LaneReport) int { return wire.CompareLanes(&a.Lane, &b.Lane) })
	return all[:min(len(all), wire.MaxSight)], mute
}

// Traces implements Sights.
func (f *Fleet) Traces(ctx context.Context, q TraceQuery) (all []TraceReport, mute []string, err error) {
	all = []TraceReport{}
	if err := q.Check(); err != nil {
		return nil, nil, err // of the query: no node is to blame
	}
	mute = f.each(ctx, func(ctx context.Context, m *member, put func(func())) error {
		traces, err := m.client.Traces(ctx, q)
		put(func() {
			for _, t := range traces {
				all = append(all, TraceReport{m.name, t})
			}
		})
		return err
	})
	slices.SortStableFunc(all, func(a, b TraceReport) int { return b.At.Compare(a.At) })
	if q.Limit <= 0 || q.Limit > wire.MaxSight {
		q.Limit = wire.MaxSight
	}
	return all[:min(len(all), q.Limit)], mute, nil
}

// each asks all nodes at one time. What they say is put together one by one; mute are those that failed.
func (f *Fleet) each(ctx context.Context, ask func(ctx context.Context, m *member, put func(func())) error) (mute []string) {
	ctx, cancel := context.WithTimeout(ctx, sightPatience)
	defer cancel()
	var one sync.Mutex // guards mute, and what put does
	put := func(do func()) { one.Lock(); defer one.Unlock(); do() }
	var asked sync.WaitGroup
	for _, m := range f.all() {
		asked.Go(func() {
			if err := ask(ctx, m, put); err != nil {
				put(func() { mute = append(mute, m.name) })
			}
		})
	}
	asked.Wait()
	slices.Sort(mute)
	return mute
}

func (f *Fleet) all() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*member, 0, len(f.members))
	for _, m := range f.members {
		all = append(all, m)
	}
	return all
}

// Release implements Sights.
func (f *Fleet) Release(ctx context.Context, node, egress, route string) (bool, error) {
	m := f.member(node)
	if m == nil {
		return false, fmt.Errorf("node %s: %w", node, ErrNoSuchNode)
	}
	ctx, cancel := context.WithTimeout(ctx, sightPatience)
	defer cancel()
	return m.client.Release(ctx, egress, route)
}

// Alone is the Sights of one prober in this process.
type Alone struct {
	Node  string
	Sight wire.Sight
}

// Lanes implements Sights.
func (a Alone) Lanes(context.Context) ([]LaneReport, []string) {
	all := []LaneReport{}
	for _, l := range a.Sight.Lanes() {
		all = append(all, LaneReport{a.Node, l})
	}
	return all, nil
}

// Traces implements Sights.
func (a Alone) Traces(_ context.Context, q TraceQuery) ([]TraceReport, []string, error) {
	traces, err := a.Sight.Traces(q)
	all := []TraceReport{}
	for _, t := range traces {
		all = append(all, TraceReport{a.Node, t})
	}
	return all, nil, err
}

// Release implements Sights.
func (a Alone) Release(_ context.Context, node, egress, route string) (bool, error) {
	if node != a.Node {
		return false, fmt.Errorf("node %s: %w", node, ErrNoSuchNode)
	}
	return a.Sight.Release(egress, route), nil
}
