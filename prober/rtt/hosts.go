package rtt

import "time"

// Hosts is what is known of how far the hosts of one ready queue are.
type Hosts struct {
	Latency
	own Estimate
}

// RecordConnect records the times of a connection that was greeted: the whole set-up, the wait for the banner, and the
// fastest reply to a command.
func (h *Hosts) RecordConnect(took, wait, rtt time.Duration) {
	h.own.Record(rtt)
	h.Latency.RecordConnect(took, wait, rtt)
}

// HighRTT reports whether the hosts have a high round-trip time; until enough is known of them, that all hosts of the
// node have.
func (h *Hosts) HighRTT(all *Shared) bool {
	if !h.own.Known() {
		return all.IsHigh()
	}
	return h.own.IsHigh()
}
