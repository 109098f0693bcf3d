package prober

import (
	"sync/atomic"
	"time"

	"probity/prober/wire/press"
)

// singleCalls knows when this node was last asked for a single address, and whether the node is under load from single calls, those among them that no node need be
// asked for. While this one is asked, bulk leaves singles a fifth of each budget; where it is not, that fifth would be a quarter more
// time for every list.
type singleCalls struct {
	last   atomic.Int64 // of Unix time, in nanoseconds; 0 for never
	own    press.Meter  // where there is no shared one
	shared *press.Meter // counts singles before this node is asked for them, and those that it need not be asked for
}

// underLoad reports that the node is under load from single calls.
func (c *singleCalls) underLoad(now time.Time) bool {
	if c.shared != nil {
		return c.shared.On(now)
	}
	return c.own.On(now)
}

// singlesExpectedFor is how long after a call another is looked for: the longest span of a budget, so that what bulk has used of the
// reserve is free again before it is forgotten why.
const singlesExpectedFor = time.Hour

func (c *singleCalls) record(now time.Time) {
	c.last.Store(now.UnixNano())
	if c.shared == nil {
		c.own.Called(now)
	}
}

// expected reports that singles are to be looked for. They are where they are not counted.
func (c *singleCalls) expected(now time.Time) bool {
	if c == nil {
		return true
	}
	last := c.last.Load()
	return last != 0 && now.UnixNano()-last < int64(singlesExpectedFor)
}
