package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"
)

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
