package pipeline

import (
	"context"
	"sync"
)

// Turns lets one task of each account run, so that no account takes all slots. The zero value is ready.
type Turns struct {
	mu      sync.Mutex
	running map[string]chan struct{} // by account, closed when its task ends; guarded by mu
}

// Begin waits until no task of the account runs, at most until ctx ends; the caller calls done afterwards.
func (t *Turns) Begin(ctx context.Context, account string) (done func(), err error) {
	for {
		t.mu.Lock()
		other := t.running[account]
		if other == nil {
			if t.running == nil {
				t.running = make(map[string]chan struct{})
			}
			mine := make(chan struct{})
			t.running[account] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.running, account)
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
