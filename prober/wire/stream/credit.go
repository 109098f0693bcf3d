package stream

import (
	"errors"

	"probity/prober/wire"
)

// errNoCredit ends a wait for credit whose batch has to be returned.
var errNoCredit = errors.New("no credit in time")

// rowCount counts rows under way, in all and by class. The zero value has none.
type rowCount struct {
	rows    int
	classes map[string]int
}

func (r *rowCount) add(class string, rows int) {
	if r.classes == nil {
		r.classes = map[string]int{}
	}
	r.rows += rows
	r.classes[class] += rows
}

func (r *rowCount) remove(class string, rows int) {
	r.rows -= rows
	r.classes[class] -= rows
	if r.classes[class] <= 0 {
		delete(r.classes, class)
	}
}

// credit is how many rows a node allows under way, and the batches that wait for it: first come, first served within a
// class, and a class that has no room is passed over. The zero value lets nothing begin. The client's mutex guards it.
type credit struct {
	isOpen  bool
	total   int
	window  int // of classes that have none of their own
	windows map[string]int

	rowCount           // under way
	queue    []*waiter // bounded by the callers of Verify
}

// waiter is a batch that waits for credit. It is served when it leaves the queue, with its rows under way or rejected.
type waiter struct {
	class    string
	rows     int
	served   chan struct{} // closed then
	rejected error
}

// setBounds takes the bounds that a stream begins with, and grants nothing yet.
func (c *credit) setBounds(total, window int) {
	c.isOpen = false
	c.total = total
	c.window = window
	c.windows = map[string]int{}
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
		w.rejected = err
		close(w.served)
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

// available returns how many more rows of a class may begin now. A class with nothing under way may begin one batch of
// any size, so that a window smaller than a batch does not stop it; a window of 0 does.
func (c *credit) available(class string) int {
	window, ok := c.windows[class]
	if !ok {
		window = c.window
	}
	if window > 0 && c.classes[class] == 0 {
		window = max(window, wire.MaxRows)
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
		c.add(w.class, w.rows)
		close(w.served)
	}
	clear(c.queue[len(kept):])
	c.queue = kept
}

// end gives back the credit of a batch.
func (c *credit) end(class string, rows int) {
	c.remove(class, rows)
	c.grant()
}

// CreditLeft returns how many rows of a class the node would take at once. Verify of more waits.
func (c *Client) CreditLeft(class string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.credit.isOpen || len(c.credit.queue) > 0 {
		return 0
	}
	return max(0, c.credit.available(class))
}
