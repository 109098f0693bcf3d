package prober

import "time"

// distance is what a lane has learnt of how long its hosts take. Where the receiver sets no limit to connections, it says how
// many of them keep the pipe full: near hosts need few, for far ones the round trip is what is waited for. The zero value is
// near. The lane's mutex guards it.
type distance struct {
	setup time.Duration // the least that a connection took from the dial to the end of the greeting; 0 before the first
	each  time.Duration // what a recipient takes, lately
}

const (
	// farAway is a set-up that no busy processor explains, since the least of all counts: two round trips and more.
	farAway = 50 * time.Millisecond
	// lately is how many transactions an average is over, about.
	lately = 8
	// firstTry is how many recipients a far host is asked for before it is known what one takes: without PIPELINING each is a
	// round trip.
	firstTry = 8
	// farShare is the part of a node's connections that one far lane may have.
	farShare = 4
	// groupTime is how long the replies to a group of transactions may take, beside two set-ups: a single may wait for them.
	groupTime = 250 * time.Millisecond
)

// reached notes a connection that was greeted.
func (l *lane) reached(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if took = max(took, 1); l.far.setup == 0 || took < l.far.setup {
		l.far.setup = took
	}
}

// asked notes a transaction of n recipients.
func (d *distance) asked(took time.Duration, n int) {
	if n == 0 {
		return
	}
	each := took / time.Duration(n)
	if d.each == 0 {
		d.each = each
	}
	d.each += (each - d.each) / lately
}

// worth is how many waiting recipients are worth one connection more, and as many go into a transaction: those that are asked
// for in twice the time that it takes to set a connection up, for that costs a handshake of TLS, too. For near hosts it is a
// number that others know.
func (d *distance) worth(near int) int {
	switch {
	case d.setup < farAway:
		return near
	case d.each <= 0:
		return min(near, firstTry)
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

// cap is how many connections the lane may have at once, of all that the node may.
func (d *distance) cap(near, all int) int {
	if d.setup < farAway {
		return near
	}
	return max(near, min(near*int(d.setup/(farAway/2)), all/farShare))
}
