package api

import (
	"context"
	"sync"
	"time"
)

// deadline is context.WithDeadline that makes its timer when somebody waits: a verification that finds its answer in
// the cache waits for nothing.
type deadline struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex      // guards both
	made   context.Context // nil until somebody waits
	cancel context.CancelFunc
	ended  bool
}

func newDeadline(parent context.Context, at time.Time) *deadline {
	return &deadline{parent: parent, at: at}
}

func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

func (d *deadline) Done() <-chan struct{} { return d.make().Done() }

// make is the context that others wait for.
func (d *deadline) make() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made == nil {
		d.made, d.cancel = context.WithDeadline(d.parent, d.at)
		if d.ended {
			d.cancel()
		}
	}
	return d.made
}

func (d *deadline) Err() error {
	d.mu.Lock()
	made, ended := d.made, d.ended
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

// Value finds the made context too, so that contexts made of this one end with it without a goroutine of their own.
func (d *deadline) Value(key any) any {
	d.mu.Lock()
	made := d.made
	d.mu.Unlock()
	if made != nil {
		return made.Value(key)
	}
	return d.parent.Value(key)
}

// end frees what the context holds.
func (d *deadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	if d.cancel != nil {
		d.cancel()
	}
}
