package dns

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

// pending is a query that is in flight or waits to be sent.
type pending struct {
	question
	server *server
	edns   edns
	id     uint16
	done   chan answer // takes one answer without waiting
	until  time.Time   // the end of the try
	late   bool        // no answer came until then; to be read after done

	in         *list // the list that it is in
	prev, next *pending
	fresh      bool // sent a moment ago
}

// list is a list of pending queries, oldest first.
type list struct{ first, last *pending }

func (l *list) push(p *pending) {
	p.in, p.prev, p.next = l, l.last, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.next = p
	}
	l.last = p
}

func (l *list) drop(p *pending) {
	if p.prev == nil {
		l.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.in, p.prev, p.next = nil, nil, nil
}

// queries are the pending queries of a socket, by id and in the order in which they were sent. All tries have the same
// timeout, so one timer for the first is enough.
type queries struct {
	list
	byID  map[uint16]*pending
	young *pending // the first that is fresh
	fresh int      // how many are fresh
}

// idTries bounds the search for a free id; MaxInFlight keeps three quarters of them free.
const idTries = 32

// add adds a query under a random free id; false if none was found.
func (q *queries) add(p *pending) bool {
	for range idTries {
		p.id = uint16(rand.Uint32())
		if _, taken := q.byID[p.id]; taken {
			continue
		}
		q.byID[p.id] = p
		q.push(p)
		p.fresh = true
		q.fresh++
		if q.young == nil {
			q.young = p
		}
		return true
	}
	return false
}

// ageOut clears fresh for the queries whose tries end by until.
func (q *queries) ageOut(until time.Time) {
	for q.young != nil && !q.young.until.After(until) {
		q.young.fresh = false
		q.fresh--
		q.young = q.young.next
	}
}

func (q *queries) remove(p *pending) {
	delete(q.byID, p.id)
	if p.fresh {
		p.fresh = false
		q.fresh--
	}
	if q.young == p {
		q.young = p.next
	}
	q.drop(p)
}

// match finds the query that a reply answers: id, server and question must all match. nil for none.
func (q *queries) match(r *reply, from netip.AddrPort) *pending {
	p := q.byID[r.Id]
	if p == nil || p.server.addr != from || !r.answers(p.question) {
		return nil
	}
	return p
}
