package prober

import "time"

// distance is what a lane has learnt of how long its hosts take. Where the receiver sets no limit to connections, it says how
// many of them keep the pipe full: near hosts need few, for far ones the round trip is what is waited for. The zero value is
// near. The lane's mutex guards it.
type distance struct {
	setup time.Duration // what a connection takes from the dial to the end of the greeting; 0 before the first
	took  time.Duration // the least that one took
	wait  time.Duration // the least that one waited for the banner
	echo  time.Duration // the least that one waited for the answer to a greeting
	each  time.Duration // what a recipient more takes, lately
	least time.Duration // the same, of the n last transactions
	n     int
}

const (
	// farAway is a set-up that no busy processor explains, since the least of all counts: two round trips and more.
	farAway = 50 * time.Millisecond
	// setupTrips are the round trips of a set-up without that of the banner: TCP, EHLO, STARTTLS, TLS, EHLO.
	setupTrips = 5
	// lately is how many transactions are looked at for what a recipient takes.
	lately = 8
	// firstTry is how many recipients a far host is asked for before it is known what one takes: without PIPELINING each is a
	// round trip.
	firstTry = 8
	// farShare is the part of a node's connections that one far lane may have.
	farShare = 8
	// groupTime is how long the replies to a group of transactions may take, in addition to two set-ups: a single may wait for them.
	groupTime = 250 * time.Millisecond
)

// reached notes a connection that was greeted, and how long that took: all of it, the banner, and the quickest answer to a command.
func (l *lane) reached(took, wait, echo time.Duration) {
	l.prober.horizon.heard(echo)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.echoes.heard(echo)
	l.far.reached(took, wait, echo)
}

// reached takes for a set-up what it would take of round trips, where the least that one took is longer: a lane's first
// connections begin all at once, which keeps a processor busy with their handshakes, and later there may be none. Were the
// set-up thought long for that, transactions would be, for who does not pipeline, and connections few.
func (d *distance) reached(took, wait, echo time.Duration) {
	least := func(old *time.Duration, d time.Duration) {
		if d = max(d, 1); *old == 0 || d < *old {
			*old = d
		}
	}
	least(&d.took, took)
	least(&d.wait, wait)
	least(&d.echo, echo)
	d.setup = min(d.took, d.wait+setupTrips*d.echo)
}

// away reports a far host.
func (d *distance) away() bool { return d.setup >= farAway }

// asked notes a transaction, and how long it took beyond the round trip that any takes. The least of the last counts, for a busy
// processor makes nearly all of them long.
func (d *distance) asked(took time.Duration, n int) {
	if n == 0 {
		return
	}
	each := max(took/time.Duration(n), 1)
	if d.n == 0 || each < d.least {
		d.least = each
	}
	if d.each == 0 || each < d.each {
		d.each = each
	}
	if d.n++; d.n == lately {
		d.each, d.n = d.least, 0
	}
}

// worth is how many waiting recipients are worth one connection more: those that are asked for in twice the time that it takes to
// set a connection up, for that costs a handshake of TLS, too. For near hosts, and until it is known what a recipient takes, it is
// a number that others know.
func (d *distance) worth(near int) int {
	switch {
	case !d.away():
		return near
	case d.each <= 0:
		return near
	}
	return min(near, max(1, int(2*d.setup/d.each)))
}

// group is how many recipients a group of transactions may hold, of most.
func (d *distance) group(most int) int {
	if d.each <= 0 {
		return 0
	}
	return min(most, int((groupTime+2*d.setup)/d.each))
}

// cap is how many connections the lane may have at once, of all that the node may, before one more is opened to a host of which
// it has so many. A host without any gets one while the lane's share lasts: thousands of tenants have a host each.
func (d *distance) cap(near, all, has int) int {
	share := max(near, all/farShare)
	switch {
	case !d.away():
		return near
	case has == 0:
		return share
	}
	return min(share, max(near, near*int(d.setup/(farAway/2))))
}

// transaction is how many recipients it may hold: as many as are worth a connection.
func (d *distance) transaction() int {
	if d.away() && d.each <= 0 {
		return firstTry
	}
	return d.worth(maxTransaction)
}
