package dns

import (
	"context"
	"math"
)

// lookup asks until an answer says what is there: an alias that a server leaves open is asked for in turn, boundedly.
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

// queryServers puts one question to the servers, healthy ones first, until one knows. That there is nothing is believed of a second
// server only, where there is one: a resolver that lies or has lost its way must not condemn a domain. Where no second one
// answers, NODATA is told as the word of one alone, which is good enough to look further, and not to condemn.
func (r *Resolver) queryServers(ctx context.Context, q question) answer {
	var order [maxServers]*server
	n := r.order(&order)
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

// trustsDenial reports whether a server's NXDOMAIN is to be believed: not when it says of the root itself that it does not exist.
// A resolver that has no way out, or lets no query out, says that of everything. It is asked at its first NXDOMAIN, and after
// denialsBeforeCheck of them in a row; one that does not answer about the root (some will not) is believed.
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

// condemns reports an answer that may make addresses invalid: no such domain, no MX, no address. That there is no AAAA is
// said of most hosts, and condemns none that has an A.
func condemns(o outcome, kind uint16) bool {
	return o == nxDomain || o == noData && kind != typeAAAA
}

// queryServer asks one server: over UDP, over TCP when the answer did not fit, without EDNS0 when that was not understood.
func (r *Resolver) queryServer(ctx context.Context, s *server, q question) answer {
	a := r.exchange(ctx, s, q, true)
	if a.outcome == noEDNS {
		a = r.exchange(ctx, s, q, false)
	}
	if a.outcome == truncated {
		a = r.exchangeTCP(ctx, s, q)
	}
	if a.outcome == truncated || a.outcome == noEDNS {
		a = answer{}
	}
	if ctx.Err() == nil { // our own haste says nothing about the server
		s.recordReply(a.outcome != timedOut)
	}
	return a
}

// exchange sends one query and waits for its answer, the end of the try, of the caller or of Run.
func (r *Resolver) exchange(ctx context.Context, s *server, q question, edns bool) answer {
	if !r.acquire(ctx) {
		return answer{outcome: timedOut}
	}
	defer r.release()
	p, sock := r.newPending(s, q, edns), r.pick()
	if !sock.send(p) {
		return answer{outcome: timedOut}
	}
	select {
	case a := <-p.done: // at the end of the try and of Run, too
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

// newPending makes a query that has not been sent, of an answered one where there is one: nothing else holds it any more. One
// whose caller has gone may still be answered, and is left to itself.
func (r *Resolver) newPending(s *server, q question, edns bool) *pending {
	p, _ := r.pool.Get().(*pending)
	if p == nil {
		p = &pending{done: make(chan answer, 1)}
	}
	p.question, p.server, p.edns, p.late = q, s, edns, false
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
