package wire

import (
	"context"
	"errors"
	"time"
)

// errNoCredit ends a wait for credit whose batch has to be returned.
var errNoCredit = errors.New("no credit in time")

// credit is how many rows a node allows under way, and the batches that wait for it: first come, first served within a class,
// and a class that has no room is passed over. The zero value lets nothing begin. The client's mutex guards it.
type credit struct {
	isOpen  bool
	total   int
	window  int // of classes that have none of their own
	windows map[string]int

	rows    int // under way
	classes map[string]int
	queue   []*waiter // bounded by the callers of Verify
}

type waiter struct {
	class string
	rows  int
	ready chan error // holds one
}

// setBounds takes the bounds that a stream begins with, and grants nothing yet.
func (c *credit) setBounds(total, window int) {
	c.isOpen, c.total, c.window, c.windows = false, total, window, map[string]int{}
}

// open begins to grant, or goes on.
func (c *credit) open() {
	c.isOpen = true
	c.grant()
}

// close stops granting: batches that wait go on waiting.
func (c *credit) close() { c.isOpen = false }

// rejectAll stops granting and rejects all that wait.
func (c *credit) rejectAll(err error) {
	c.isOpen = false
	for _, w := range c.queue {
		w.ready <- err
	}
	c.queue = nil
}

// set takes the node's window for a class. Beyond maxClasses the default stands.
func (c *credit) set(class string, rows int) {
	if _, ok := c.windows[class]; ok || len(c.windows) < maxClasses {
		c.windows[class] = rows
		c.grant()
	}
}

// available is how many more rows of a class may begin now. A class with nothing under way may begin one batch of any size, so
// that a window smaller than a batch does not stop it; a window of 0 does.
func (c *credit) available(class string) int {
	window, ok := c.windows[class]
	if !ok {
		window = c.window
	}
	if window > 0 && c.classes[class] == 0 {
		window = max(window, MaxRows)
	}
	return min(window-c.classes[class], c.total-c.rows)
}

// grant starts the waiting batches that have credit.
func (c *credit) grant() {
	if !c.isOpen {
		return
	}
	full := map[string]bool{}
	kept := c.queue[:0]
	for _, w := range c.queue {
		if full[w.class] || c.available(w.class) < w.rows {
			full[w.class] = true
			kept = append(kept, w)
			continue
		}
		c.begin(w.class, w.rows)
		w.ready <- nil
	}
	clear(c.queue[len(kept):])
	c.queue = kept
}

func (c *credit) begin(class string, rows int) {
	if c.classes == nil {
		c.classes = map[string]int{}
	}
	c.rows += rows
	c.classes[class] += rows
}

func (c *credit) end(class string, rows int) {
	c.rows -= rows
	if c.classes[class] -= rows; c.classes[class] <= 0 {
		delete(c.classes, class)
	}
	c.grant()
}

// removeWaiter takes a waiter out of the queue; false where it was served meanwhile.
func (c *credit) removeWaiter(w *waiter) bool {
	for i := range c.queue {
		if c.queue[i] == w {
			c.queue = append(c.queue[:i], c.queue[i+1:]...)
			return true
		}
	}
	return false
}

// admit waits for credit: until the hold is over or ctx ends, with errNoCredit, or until the node is gone.
func (c *Client) admit(ctx context.Context, b *Batch, until time.Time) error {
	w := &waiter{class: b.Class, rows: len(b.Rows), ready: make(chan error, 1)}
	c.mu.Lock()
	if !c.state.Usable || c.state.Draining {
		c.mu.Unlock()
		return c.unusableError()
	}
	c.credit.queue = append(c.credit.queue, w)
	c.credit.grant()
	c.mu.Unlock()

	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.credit.removeWaiter(w) {
		c.credit.grant() // a batch that waited behind it may fit
		return errNoCredit
	}
	return <-w.ready
}

func (c *Client) release(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.credit.end(b.Class, len(b.Rows))
}

// CreditLeft is how many rows of a class the node would take at once. Verify of more waits.
func (c *Client) CreditLeft(class string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.credit.isOpen || len(c.credit.queue) > 0 {
		return 0
	}
	return max(0, c.credit.available(class))
}
