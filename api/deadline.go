package api

import (
	"context"
	"sync"
	"time"
)

// deadline is context.WithDeadline that makes its timer only when a caller waits: a verification with a cached answer
// does not wait.
type deadline struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex      // guards both
	inner  context.Context // nil until a caller waits
	cancel context.CancelFunc
	ended  bool
}

func newDeadline(parent context.Context, at time.Time) *deadline {
	return &deadline{parent: parent, at: at}
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} { return d.innerContext().Done() }

// innerContext is the context that others wait for.
func (d *deadline) innerContext() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner == nil {
		d.inner, d.cancel = context.WithDeadline(d.parent, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.inner
}

func (d *deadline) Err() error {
	d.mu.Lock()
	made, ended := d.inner, d.ended
	d.mu.Unlock()
	switch {
	case made != nil:
		return made.Err()
	case ended:
		return context.Canceled
	case d.parent.Err() != nil:
		return d.parent.Err()
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return nil
}

// Value finds the inner context too, so that contexts derived from this one end with it without a goroutine of their own.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	made := d.inner
	d.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return d.parent.Value(key)
}

// release cancels the context and frees its timer.
func (d *deadline) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
