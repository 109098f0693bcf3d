package hosthealth

import "time"

// carefulLife is how long a host is sent one command at a time after it did not endure more: its server may have been
// replaced.
const carefulLife = 24 * time.Hour

// Dialogue is what connections have shown of a host as a partner in dialogue. The zero value knows nothing.
type Dialogue struct {
	Confirmed bool // it has answered each command of a connection once
	Careful   bool // it gets one command at a time
}

// Covers reports whether a connection that was opened by d is as careful as what is known of a host by now demands. One
// that was opened while nothing was confirmed is the most careful: it waits after each command.
func (d Dialogue) Covers(now Dialogue) bool {
	return !now.Careful || d.Careful && (now.Confirmed || !d.Confirmed)
}

// Dialogue returns what is known of a host.
func (h *Hosts) Dialogue(host string, now time.Time) Dialogue {
	r := h.records[host]
	if r == nil {
		return Dialogue{}
	}
	if !r.carefulUntil.IsZero() && !now.Before(r.carefulUntil) {
		r.dialogue, r.carefulUntil = Dialogue{}, time.Time{}
		h.forgetEmpty(host, r)
	}
	return r.dialogue
}

// DistrustsAny reports whether some host gets one command at a time for a day because its replies were out of step.
func (h *Hosts) DistrustsAny(now time.Time) bool {
	for _, r := range h.records {
		if now.Before(r.carefulUntil) {
			return true
		}
	}
	return false
}

// ConfirmDialogue records a connection on which each command had one reply.
func (h *Hosts) ConfirmDialogue(host string) {
	if r := h.record(host, maxHosts); r != nil {
		r.dialogue = Dialogue{Confirmed: true, Careful: !r.carefulUntil.IsZero()}
	}
}

// DoubtDialogue records a connection whose replies could not be confirmed: the next ones get one command at a time,
// until one is.
func (h *Hosts) DoubtDialogue(host string) {
	if r := h.record(host, maxHosts); r != nil {
		r.dialogue = Dialogue{Careful: true}
	}
}

// DistrustDialogue records a connection whose replies were out of step, or that a group of commands has ended. It
// reports whether the next connection is more careful for it: not if this one was as careful, or if too many hosts are
// remembered.
func (h *Hosts) DistrustDialogue(host string, now time.Time) (moreCareful bool) {
	moreCareful = !h.Dialogue(host, now).Careful
	r := h.record(host, maxHosts)
	if r == nil {
		return false
	}
	r.dialogue, r.carefulUntil = Dialogue{Careful: true}, now.Add(carefulLife)
	return moreCareful
}
