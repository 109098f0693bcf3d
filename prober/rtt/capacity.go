package rtt

import "time"

// Latency estimates how long a ready queue's hosts take. If the receiver does not limit connections, it determines how
// many to open: low-latency hosts need few; with high latency, most time is spent on round trips. The zero value is low
// latency. Its owner's lock guards it.
type Latency struct {
	setup             time.Duration // of a connection, from the dial to the end of the greeting; 0 before the first
	leastSetup        time.Duration // least measured set-up
	leastWait         time.Duration // least wait for the banner
	leastRTT          time.Duration // least wait for a reply to a greeting command
	perRecipient      time.Duration // time per additional recipient, recently
	leastPerRecipient time.Duration // least of the last n transactions
	n                 int
}

const (
	// highSetupTime is a set-up that a busy processor does not explain, since the least of all counts: two round trips
	// and more.
	highSetupTime = 50 * time.Millisecond
	// setupTrips is the round trips of a set-up without the banner: TCP, EHLO, STARTTLS, TLS, EHLO.
	setupTrips = 5
	// transactionSamples is how many transactions give one estimate of the time per recipient.
	transactionSamples = 8
	// firstTransaction is the recipients of a high-latency host's first transaction: without PIPELINING each is a round
	// trip.
	firstTransaction = 8
	// highLatencyShare is the part of a node's connections that one high-latency queue may have.
	highLatencyShare = 8
	// pipelineTime is how long the replies to a group of transactions may take, plus two set-ups: a single call may
	// wait for them.
	pipelineTime = 250 * time.Millisecond
)

// RecordConnect updates the set-up time: the least measured one, or the sum of its round trips if that is less. A
// queue's first connections begin all at once and keep the processor busy with handshakes, and later there may be none;
// without the second value the estimate would stay too high.
func (l *Latency) RecordConnect(took, wait, rtt time.Duration) {
	l.leastSetup, l.leastWait, l.leastRTT = least(l.leastSetup, took), least(l.leastWait, wait), least(l.leastRTT, rtt)
	l.setup = min(l.leastSetup, l.leastWait+setupTrips*l.leastRTT)
}

// least is the lesser of a measured time and an older one; 0 is none.
func least(old, measured time.Duration) time.Duration {
	measured = max(measured, 1)
	if old == 0 {
		return measured
	}
	return min(old, measured)
}

// IsHigh reports hosts with a long round trip.
func (l *Latency) IsHigh() bool { return l.setup >= highSetupTime }

// RecordTransaction records the recipients of a transaction and its time beyond one round trip. The least of the last
// ones counts, because a busy processor makes nearly all of them long.
func (l *Latency) RecordTransaction(took time.Duration, n int) {
	if n == 0 {
		return
	}
	each := took / time.Duration(n)
	l.perRecipient, l.leastPerRecipient = least(l.perRecipient, each), least(l.leastPerRecipient, each)
	l.n++
	if l.n == transactionSamples {
		l.perRecipient, l.leastPerRecipient, l.n = l.leastPerRecipient, 0, 0
	}
}

// WorthConnection returns how many waiting recipients justify one more connection: those that are asked in two set-up
// times, as a set-up also costs a TLS handshake. For low latency, and before the time per recipient is known, it is
// near.
func (l *Latency) WorthConnection(near int) int {
	switch {
	case !l.IsHigh():
		return near
	case l.perRecipient <= 0:
		return near
	}
	return min(near, max(1, int(2*l.setup/l.perRecipient)))
}

// PipelineLimit returns how many recipients a group of transactions may hold, at most `most`; 0 before the time per
// recipient is known.
func (l *Latency) PipelineLimit(most int) int {
	if l.perRecipient <= 0 {
		return 0
	}
	return min(most, int((pipelineTime+2*l.setup)/l.perRecipient))
}

// ConnectionCap returns how many connections the queue may have before one more is opened to a host that has `has` of
// them; the node may have `all`. A host without any gets one while the queue's share lasts: thousands of tenants have a
// host each.
func (l *Latency) ConnectionCap(near, all, has int) int {
	share := max(near, all/highLatencyShare)
	switch {
	case !l.IsHigh():
		return near
	case has == 0:
		return share
	}
	return min(share, max(near, near*int(l.setup/(highSetupTime/2))))
}

// TransactionLimit returns how many recipients a transaction may hold, at most `most`: as many as justify a connection.
func (l *Latency) TransactionLimit(most int) int {
	if l.IsHigh() && l.perRecipient <= 0 {
		return firstTransaction
	}
	return l.WorthConnection(most)
}
