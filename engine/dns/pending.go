package dns

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"time"
)

// pending is a query on the wire.
type pending struct {
	question
	server *server
	id     uint16
	done   chan answer // takes one answer without waiting
	until  time.Time   // the end of the try
	late   bool        // nothing came until then; to be read behind done

	prev, next *pending // neighbours in the list that it waits in
}

// queries are the pending ones of a socket, by id and in the order in which they were sent: all tries last equally long, so
// that one timer at the first does for all of them.
type queries struct {
	byID        map[uint16]*pending
	first, last *pending
}

// idTries bounds the search for a free id; MaxInFlight keeps three quarters of them free.
const idTries = 32

// add puts a query in under a random free id; false when none was found.
func (q *queries) add(p *pending) bool {
	for range idTries {
		p.id = uint16(rand.Uint32())
		if _, taken := q.byID[p.id]; taken {
			continue
		}
		q.byID[p.id] = p
		if p.prev, p.next = q.last, nil; q.last == nil {
			q.first = p
		} else {
			q.last.next = p
		}
		q.last = p
		return true
	}
	return false
}

func (q *queries) remove(p *pending) {
	delete(q.byID, p.id)
	if p.prev == nil {
		q.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		q.last = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
}

// answered is the query that msg answers: id, server and question must all be its own. nil for none.
func (q *queries) answered(msg []byte, from netip.AddrPort) *pending {
	if len(msg) < headerLen {
		return nil
	}
	p := q.byID[binary.BigEndian.Uint16(msg)]
	if p == nil || p.server.addr != from || !answers(msg, p.question) {
		return nil
	}
	return p
}
