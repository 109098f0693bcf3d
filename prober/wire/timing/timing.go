package timing

import "time"

const (
	PingEvery = 2 * time.Second  // each side says at least so often that it is there
	Lease     = 10 * time.Second // a node probes for this long after the last ping that was answered
	Patience  = 15 * time.Second // a coordinator gives a node up after this long without a word
	Keep      = 60 * time.Second // a node stays true to a silent coordinator, and keeps its results, for this long
	KeepShare = 60 * time.Second // a node that is missing keeps its share of the routes
	Handover  = 10 * time.Second // a narrow route rests so long when its owner changes: who had it hangs up meanwhile
	Settling  = 5 * time.Second  // after a start: who owned a narrow route before may not be attached to yet
	Retry     = 3 * time.Second  // the longest wait before a stream is tried again
	HangUp    = 10 * time.Second // sessions may take so long to finish what they have sent; then their connections are reset
)
