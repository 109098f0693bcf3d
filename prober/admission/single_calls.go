package admission

import (
	"sync/atomic"
	"time"

	"probity/prober/wire/press"
)

// SingleCalls knows when this node was last asked for a single address, and whether single calls put it under load,
// also those that need no node. While single calls are expected, jobs leave them a fifth of each budget; otherwise jobs
// use it all.
type SingleCalls struct {
	last   atomic.Int64 // Unix time in nanoseconds; 0 for never
	own    press.Meter  // where there is no shared one
	Shared *press.Meter // counts single calls before this node is asked for them, and those that need no node
}

// UnderLoad reports whether the node is under load from single calls.
func (c *SingleCalls) UnderLoad(now time.Time) bool {
	if c.Shared != nil {
		return c.Shared.On(now)
	}
	return c.own.On(now)
}

// singlesExpectedFor is how long after a single call another is expected: the longest span of a budget, so that what
// jobs have used of the reserve is free again while the reserve still holds.
const singlesExpectedFor = time.Hour

// Record counts a single call.
func (c *SingleCalls) Record(now time.Time) {
	c.last.Store(now.UnixNano())
	if c.Shared == nil {
		c.own.Called(now)
	}
}

// Expected reports whether single calls are expected; always true where they are not counted.
func (c *SingleCalls) Expected(now time.Time) bool {
	if c == nil {
		return true
	}
	last := c.last.Load()
	return last != 0 && now.UnixNano()-last < int64(singlesExpectedFor)
}
