package hosthealth

import (
	"time"

	"probity/engine"
)

const (
	maxHosts    = 2000 // remembered
	maxReplies  = 1000 // of them, because they replied
	maxSilences = 3    // in a row; then the host is down

	tarpitReply   = 5 * time.Second // of one reply: less is not a tarpit
	tarpitFactor  = 4               // and so many times the host's fastest
	tarpitReplies = 10              // the pause, in times of a reply
	// from here on the pause is the longest: the next replies, and its banner, would come too late
	longTarpitReply = 10 * time.Second
)

// Hosts are the hosts of a ready queue. The zero value remembers none.
type Hosts struct {
	records map[string]*record // nil until there is one: of 50,000 queues, few need it
}

// record is what is remembered of one host.
type record struct {
	down         *downtime // nil if it is not
	failures     int       // that are not confirmed
	firstBegan   time.Time // when the first of them began
	lastFailed   time.Time // when the last one ended
	silences     int       // in a row
	fastestReply time.Duration
	dialogue     Dialogue
	carefulUntil time.Time // when its dialogue's Careful ends
}

// downtime is how a host failed, and until when that holds.
type downtime struct {
	why   engine.Sighting
	until time.Time
}

// record finds or makes a host's record; it is nil if so many are remembered already.
func (h *Hosts) record(host string, most int) *record {
	if r := h.records[host]; r != nil || len(h.records) >= most {
		return r
	}
	if h.records == nil {
		h.records = map[string]*record{}
	}
	h.records[host] = &record{}
	return h.records[host]
}

// forgetEmpty forgets a record in which nothing is left.
func (h *Hosts) forgetEmpty(host string, r *record) {
	if *r == (record{}) {
		delete(h.records, host)
	}
}

// Down reports whether host counts as down, and how it failed.
func (h *Hosts) Down(host string, now time.Time) (engine.Sighting, bool) {
	r := h.records[host]
	switch {
	case r == nil || r.down == nil:
		return engine.Sighting{}, false
	case now.Before(r.down.until):
		return r.down.why, true
	}
	r.down = nil
	h.forgetEmpty(host, r)
	return engine.Sighting{}, false
}

// MarkDown makes a host count as down until a time.
func (h *Hosts) MarkDown(host string, why engine.Sighting, until time.Time) {
	if r := h.record(host, maxHosts); r != nil {
		r.down = &downtime{why, until}
	}
}

// Try is a connection that failed.
type Try struct {
	Began    time.Time
	Backoff  time.Duration // until the second one; twice as long until the third
	Doubtful bool          // it takes a third one to confirm the host's failure: the fault may be ours
}

// RecordFailure records a failure that may not be the host's. It is confirmed if another connection to the host, begun
// later, has failed too. If it is not, again is when the next one may be tried; it is zero if a connection of the same
// time has set that.
func (h *Hosts) RecordFailure(host string, t Try, now time.Time) (confirmed bool, again time.Time) {
	r := h.record(host, maxHosts)
	switch {
	case r == nil:
		return true, time.Time{}
	case r.failures > 0 && !t.Began.After(r.lastFailed):
		return false, time.Time{}
	case r.failures == 0, r.failures == 1 && t.Doubtful:
		if r.failures == 0 {
			r.firstBegan = t.Began
		}
		again = now.Add(t.Backoff << r.failures)
		r.failures++
		r.lastFailed = now
		return false, again
	}
	h.forgetFailures(host, r)
	return true, time.Time{}
}

// ForgetFailures forgets the unconfirmed failures of a host: it was reached, or failed in a way that needs no second
// failure.
func (h *Hosts) ForgetFailures(host string) {
	if r := h.records[host]; r != nil {
		h.forgetFailures(host, r)
	}
}

func (h *Hosts) forgetFailures(host string, r *record) {
	r.failures, r.firstBegan, r.lastFailed = 0, time.Time{}, time.Time{}
	h.forgetEmpty(host, r)
}

// FirstFailureBegan returns the time at which the first of the connections began that failed in a row; began if only
// this one has.
func (h *Hosts) FirstFailureBegan(host string, began time.Time) time.Time {
	if r := h.records[host]; r != nil && r.failures > 0 {
		return r.firstBegan
	}
	return began
}

// DropUnconfirmed forgets the failures of hosts where the last one was before a time: a host that fails once a day
// fails for the first time each day. It returns how many hosts have unconfirmed failures still.
func (h *Hosts) DropUnconfirmed(before time.Time) (left int) {
	for host, r := range h.records {
		switch {
		case r.failures == 0:
		case r.lastFailed.Before(before):
			h.forgetFailures(host, r)
		default:
			left++
		}
	}
	return left
}

// RecordSilence records a connection on which a host took recipients and answered none. It reports the third in a row:
// the host is down, and counting begins again.
func (h *Hosts) RecordSilence(host string) (silent bool) {
	r := h.record(host, maxHosts)
	if r == nil {
		return false
	}
	r.silences++
	if r.silences < maxSilences {
		return false
	}
	r.silences = 0
	h.forgetEmpty(host, r)
	return true
}

// RecordAnswer records that a host has answered a recipient.
func (h *Hosts) RecordAnswer(host string) {
	if r := h.records[host]; r != nil && r.silences > 0 {
		r.silences = 0
		h.forgetEmpty(host, r)
	}
}

// RecordReplyTime records how long a host took for a reply. If it has become a tarpit, the pause is how long it needs
// rest: the longer the slower it is, so that it recovers about as fast as it slows down. Else it is zero.
func (h *Hosts) RecordReplyTime(host string, took, longestPause time.Duration) (pause time.Duration) {
	took = max(took, 1) // zero is unknown
	r := h.record(host, maxReplies)
	switch {
	case r == nil:
		return 0
	case r.fastestReply == 0 || took < r.fastestReply:
		r.fastestReply = took
		return 0
	case took < tarpitReply || took < tarpitFactor*r.fastestReply:
		return 0
	case took >= longTarpitReply:
		return longestPause
	}
	return min(tarpitReplies*took, longestPause)
}
