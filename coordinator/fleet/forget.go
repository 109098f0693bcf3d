package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// An erasure reaches the caches of all nodes that are known: those that can be reached at once, the others when they are back; the
// Eraser keeps who was not told. A node that the cluster had forgotten before the erasure, after an hour's absence, is not known: erase
// again when it is back.

// errNewFleet is returned while it is not known which nodes there are.
var errNewFleet = fmt.Errorf("the coordinator has run for less than %s and does not know its nodes yet", settling)

// Forget implements Caches.
func (f *Fleet) Forget(ctx context.Context, folded string, done func(node string) bool) (reached map[string]int, away []string, err error) {
	f.mu.Lock()
	begun := f.begun
	f.mu.Unlock()
	if begun.IsZero() || time.Since(begun) < settling {
		return nil, nil, errNewFleet
	}
	reached = map[string]int{}
	away = f.each(ctx, func(ctx context.Context, m *member, put func(func())) error {
		if done(m.name) {
			return nil
		}
		was, err := m.client.Forget(ctx, folded)
		if err == nil {
			put(func() { reached[m.name] = map[bool]int{true: 1}[was] })
		}
		return err
	})
	for _, n := range f.roster.Load().view.Nodes {
		if f.member(n.Name) == nil && !slices.Contains(away, n.Name) && !done(n.Name) {
			away = append(away, n.Name)
		}
	}
	return reached, away, nil
}

// Reachable implements Caches.
func (f *Fleet) Reachable(node string) bool {
	m := f.member(node)
	return m != nil && m.client.State().Live
}
