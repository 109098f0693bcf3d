package httpd

import (
	"context"
	"sync"
	"time"
)

// Deadline is context.WithDeadline that makes its timer only when a caller waits: a verification with a cached answer
// does not wait.
type Deadline struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex      // guards both
	inner  context.Context // nil until a caller waits
	cancel context.CancelFunc
	ended  bool
}

// NewDeadline makes a context that ends with its parent, at a time, or when it is released.
func NewDeadline(parent context.Context, at time.Time) *Deadline {
	return &Deadline{parent: parent, at: at}
}

// Deadline implements context.Context, as do Done, Err and Value.
func (d *Deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *Deadline) Done() <-chan struct{} { return d.innerContext().Done() }

// innerContext is the context that others wait for.
func (d *Deadline) innerContext() context.Context {
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

func (d *Deadline) Err() error {
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
func (d *Deadline) Value(key any) any {
	d.mu.Lock()
	made := d.inner
	d.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return d.parent.Value(key)
}

// Release cancels the context and frees its timer.
func (d *Deadline) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
