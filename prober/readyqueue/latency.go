package readyqueue

import "time"

// recordConnect records the times of a connection that was greeted: the whole set-up, the wait for the banner, and the fastest
// reply to a command.
func (q *Queue) recordConnect(took, wait, roundTrip time.Duration) {
	q.env.NodeRTT.Record(roundTrip)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rtt.Record(roundTrip)
	q.latency.RecordConnect(took, wait, roundTrip)
}

// highLatency reports that the queue's hosts have a high round-trip time. The mutex is held.
func (q *Queue) highLatency() bool {
	if !q.rtt.Known() {
		return q.env.NodeRTT.IsHigh()
	}
	return q.rtt.IsHigh()
}
