package budget

import "time"

// Hold is until when nothing may be sent, or no connection opened, for other reasons than a limit: a receiver asked for
// a pause, or connections failed.
type Hold struct {
	SendAt    time.Time // nothing is sent before: a pause, or the minute after a restart
	ConnectAt time.Time // no connection is opened before: back-off; see ConnectAllowedAt

	backoff time.Duration
}

// Pause sends nothing until a time.
func (h *Hold) Pause(until time.Time) {
	if until.After(h.SendAt) {
		h.SendAt = until
	}
}

// BackOff delays new connections after a failed one: from least to most, doubled each time until Answered.
func (h *Hold) BackOff(least, most time.Duration, now time.Time) {
	h.backoff = min(max(2*h.backoff, least), most)
	h.ConnectAt = now.Add(h.backoff)
}

// Answered ends the doubling: a recipient was answered.
func (h *Hold) Answered() { h.backoff = 0 }

// ConnectAllowedAt is the earliest time for a new connection.
func (h *Hold) ConnectAllowedAt() time.Time {
	if h.ConnectAt.After(h.SendAt) {
		return h.ConnectAt
	}
	return h.SendAt
}
