package timing

import "time"

const (
	PingEvery   = 2 * time.Second  // each side sends a message at least so often
	Lease       = 10 * time.Second // a node probes for this long after the last ping that was answered
	NodeTimeout = 15 * time.Second // a coordinator gives a node up after this long without a message
	// a node works for no other coordinator before its own was silent for this long
	CoordinatorTimeout = 60 * time.Second
	KeepShare          = 60 * time.Second // a node that is missing keeps its share of the routes
	// a narrow route is paused so long when its owner changes: the former owner closes its connections meanwhile
	Handover = 10 * time.Second
	// after a start: the former owner of a narrow route may not be attached to yet
	StartDelay   = 5 * time.Second
	MaxRetryWait = 3 * time.Second // the longest wait before a stream is tried again
	// sessions may take so long to finish what they have sent; then their connections are reset
	CloseTimeout = 10 * time.Second
)
