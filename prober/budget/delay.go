package budget

import "time"

// Delay is until when nothing may be sent, or no connection opened, for other reasons than a limit: a receiver asked
// for a pause, or connections failed.
type Delay struct {
	SendAt    time.Time // nothing is sent before: a pause, or the minute after a restart
	ConnectAt time.Time // no connection is opened before: back-off; see ConnectAllowedAt

	backoff time.Duration
}

// Pause sends nothing until a time.
func (d *Delay) Pause(until time.Time) {
	if until.After(d.SendAt) {
		d.SendAt = until
	}
}

// BackOff delays new connections after a failed one: from least to most, doubled each time until Answered.
func (d *Delay) BackOff(least, most time.Duration, now time.Time) {
	d.backoff = min(max(2*d.backoff, least), most)
	d.ConnectAt = now.Add(d.backoff)
}

// Answered ends the doubling: a recipient was answered.
func (d *Delay) Answered() { d.backoff = 0 }

// ConnectAllowedAt is the earliest time for a new connection.
func (d *Delay) ConnectAllowedAt() time.Time {
	if d.ConnectAt.After(d.SendAt) {
		return d.ConnectAt
	}
	return d.SendAt
}
