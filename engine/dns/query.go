package dns

import (
	"context"
	"math"
)

// lookup queries a name and follows the aliases that an answer does not resolve, at most maxAliases.
func (r *Resolver) lookup(ctx context.Context, q question) answer {
	ttl := uint32(math.MaxUint32)
	seen := [maxAliases + 1]string{}
	for i := range seen {
		seen[i] = q.name
		a := r.queryServers(ctx, q)
		ttl = min(ttl, a.ttl)
		if a.alias == "" {
			a.ttl = ttl
			return a
		}
		for _, name := range seen[:i+1] {
			if a.alias == name {
				return answer{outcome: servFail}
			}
		}
		q.name = a.alias
	}
	return answer{outcome: servFail}
}

// queryServers sends one question to the servers, healthy ones first, until one answers. If there is a second server,
// it must confirm a negative answer: one faulty resolver must not condemn a domain. If no second one answers, a NODATA
// is marked unconfirmed, which is enough to look further, but not to condemn.
func (r *Resolver) queryServers(ctx context.Context, q question) answer {
	var order [maxServers]*server
	n := r.servers.order(&order)
	failure := answer{outcome: timedOut}
	var deniedBy *server
	var negative answer
	for i := range r.cfg.Attempts {
		s := order[i%n]
		if s == deniedBy {
			continue
		}
		a := r.queryServer(ctx, s, q)
		if a.outcome == nxDomain && !r.trustsDenial(ctx, s) {
			a = answer{}
		} else if a.outcome == found || a.outcome == noData {
			s.trustDenials()
		}
		switch {
		case condemns(a.outcome, q.kind) && n > 1 && deniedBy == nil:
			deniedBy, negative = s, a
		case a.outcome == nxDomain && negative.outcome == noData:
			return negative // the first knew the name
		case a.outcome >= found:
			return a
		case a.outcome != timedOut:
			failure.outcome = servFail
		case ctx.Err() != nil:
			return a
		}
	}
	if negative.outcome == noData {
		negative.unconfirmed = true
		return negative
	}
	return failure
}

// trustsDenial reports whether a server's NXDOMAIN counts: not if it answers NXDOMAIN for the root itself. A resolver
// without an upstream, or that blocks queries, does so for every name. The root is queried at the first NXDOMAIN, and
// after denialsBeforeCheck of them in a row; a server that does not answer about the root (some do not) is trusted.
func (r *Resolver) trustsDenial(ctx context.Context, s *server) bool {
	if !s.needsRootCheck() {
		return true
	}
	if r.queryServer(ctx, s, question{kind: typeMX}).outcome == nxDomain {
		s.deniesRoot.Store(true)
		r.counts.untrusted.Add(1)
		return false
	}
	s.trustDenials()
	return true
}

// condemns reports whether o may make addresses invalid: no such domain, no MX, no address. Most hosts have no
// AAAA: that condemns none.
func condemns(o outcome, kind uint16) bool {
	return o == nxDomain || o == noData && kind != typeAAAA
}

// queryServer queries one server: over UDP, over TCP if the answer did not fit, without EDNS0 if that was not
// understood.
func (r *Resolver) queryServer(ctx context.Context, s *server, q question) answer {
	a := r.exchange(ctx, s, q, withEDNS)
	if a.outcome == noEDNS {
		a = r.exchange(ctx, s, q, withoutEDNS)
	}
	if a.outcome == truncated {
		a = r.exchangeTCP(ctx, s, q)
	}
	if a.outcome == truncated || a.outcome == noEDNS {
		a = answer{}
	}
	if ctx.Err() == nil { // the end of our context says nothing about the server
		s.recordReply(a.outcome != timedOut)
	}
	return a
}

// exchange sends one query and waits for its answer, or the end of the try, of ctx or of Run.
func (r *Resolver) exchange(ctx context.Context, s *server, q question, with edns) answer {
	if !r.acquire(ctx) {
		return answer{outcome: timedOut}
	}
	defer r.release()
	p, sock := r.newPending(s, q, with), r.pick()
	if !sock.send(p) {
		return answer{outcome: timedOut}
	}
	select {
	case a := <-p.done: // sent at the end of the try and of Run, too
		if p.late {
			r.counts.timeouts.Add(1)
		}
		r.pool.Put(p)
		return a
	case <-ctx.Done():
	}
	sock.cancel(p)
	return answer{outcome: timedOut}
}

// newPending makes a query that has not been sent, from the pool if possible. A cancelled query is not reused: it may
// still be answered.
func (r *Resolver) newPending(s *server, q question, with edns) *pending {
	p, _ := r.pool.Get().(*pending)
	if p == nil {
		p = &pending{done: make(chan answer, 1)}
	}
	p.question = q
	p.server = s
	p.edns = with
	p.late = false
	return p
}

// acquire waits for Run to have opened the sockets and for a slot among MaxInFlight.
func (r *Resolver) acquire(ctx context.Context) bool {
	if r.ready.Load() {
		select {
		case r.inFlight <- struct{}{}:
			return true
		default:
		}
	}
	select {
	case <-r.open:
	case <-ctx.Done():
		return false
	case <-r.stopped:
		return false
	}
	select {
	case r.inFlight <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-r.stopped:
	}
	return false
}

func (r *Resolver) release() { <-r.inFlight }
