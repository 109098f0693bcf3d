package prober

import "time"

// latencyEstimate is what a ready queue has learnt of how long its hosts take. Where the receiver sets no limit to connections, it says how
// many of them keep the pipe full: near hosts need few, for far ones the round trip is what is waited for. The zero value is
// near. The queue's mutex guards it.
type latencyEstimate struct {
	setup             time.Duration // what a connection takes from the dial to the end of the greeting; 0 before the first
	leastSetup        time.Duration // the least that one took
	leastWait         time.Duration // the least that one waited for the banner
	leastRTT          time.Duration // the least that one waited for the answer to a greeting
	perRecipient      time.Duration // what a recipient more takes, lately
	leastPerRecipient time.Duration // the same, of the n last transactions
	n                 int
}

const (
	// highSetupTime is a set-up that no busy processor explains, since the least of all counts: two round trips and more.
	highSetupTime = 50 * time.Millisecond
	// setupTrips are the round trips of a set-up without that of the banner: TCP, EHLO, STARTTLS, TLS, EHLO.
	setupTrips = 5
	// transactionSamples is how many transactions are looked at for what a recipient takes.
	transactionSamples = 8
	// firstTransaction is how many recipients a far host is asked for before it is known what one takes: without PIPELINING each is a
	// round trip.
	firstTransaction = 8
	// highLatencyShare is the part of a node's connections that one high-latency queue may have.
	highLatencyShare = 8
	// pipelineTime is how long the replies to a group of transactions may take, in addition to two set-ups: a single may wait for them.
	pipelineTime = 250 * time.Millisecond
)

// recordConnect notes a connection that was greeted, and how long that took: all of it, the banner, and the quickest answer to a command.
func (q *readyQueue) recordConnect(took, wait, rtt time.Duration) {
	q.prober.nodeRTT.record(rtt)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rtt.record(rtt)
	q.latency.recordConnect(took, wait, rtt)
}

// recordConnect takes for a set-up what it would take of round trips, where the least that one took is longer: a queue's first
// connections begin all at once, which keeps a processor busy with their handshakes, and later there may be none. Were the
// set-up thought long for that, transactions would be, for who does not pipeline, and connections few.
func (d *latencyEstimate) recordConnect(took, wait, rtt time.Duration) {
	least := func(old *time.Duration, d time.Duration) {
		if d = max(d, 1); *old == 0 || d < *old {
			*old = d
		}
	}
	least(&d.leastSetup, took)
	least(&d.leastWait, wait)
	least(&d.leastRTT, rtt)
	d.setup = min(d.leastSetup, d.leastWait+setupTrips*d.leastRTT)
}

// highLatency reports a far host.
func (d *latencyEstimate) highLatency() bool { return d.setup >= highSetupTime }

// recordTransaction notes a transaction, and how long it took beyond the round trip that any takes. The least of the last counts, for a busy
// processor makes nearly all of them long.
func (d *latencyEstimate) recordTransaction(took time.Duration, n int) {
	if n == 0 {
		return
	}
	each := max(took/time.Duration(n), 1)
	if d.n == 0 || each < d.leastPerRecipient {
		d.leastPerRecipient = each
	}
	if d.perRecipient == 0 || each < d.perRecipient {
		d.perRecipient = each
	}
	if d.n++; d.n == transactionSamples {
		d.perRecipient, d.n = d.leastPerRecipient, 0
	}
}

// worthConnection is how many waiting recipients are worth one connection more: those that are asked for in twice the time that it takes to
// set a connection up, for that costs a handshake of TLS, too. For near hosts, and until it is known what a recipient takes, it is
// a number that others know.
func (d *latencyEstimate) worthConnection(near int) int {
	switch {
	case !d.highLatency():
		return near
	case d.perRecipient <= 0:
		return near
	}
	return min(near, max(1, int(2*d.setup/d.perRecipient)))
}

// pipelineLimit is how many recipients a group of transactions may hold, of most.
func (d *latencyEstimate) pipelineLimit(most int) int {
	if d.perRecipient <= 0 {
		return 0
	}
	return min(most, int((pipelineTime+2*d.setup)/d.perRecipient))
}

// connectionCap is how many connections the queue may have at once, of all that the node may, before one more is opened to a host of which
// it has so many. A host without any gets one while the queue's share lasts: thousands of tenants have a host each.
func (d *latencyEstimate) connectionCap(near, all, has int) int {
	share := max(near, all/highLatencyShare)
	switch {
	case !d.highLatency():
		return near
	case has == 0:
		return share
	}
	return min(share, max(near, near*int(d.setup/(highSetupTime/2))))
}

// transactionLimit is how many recipients it may hold: as many as are worth a connection.
func (d *latencyEstimate) transactionLimit() int {
	if d.highLatency() && d.perRecipient <= 0 {
		return firstTransaction
	}
	return d.worthConnection(maxTransaction)
}
