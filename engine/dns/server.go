package dns

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	downAfter = 3                // timeouts in a row after which a server is queried last
	downFor   = 10 * time.Second // and for how long
)

// server is one recursive resolver and its health.
type server struct {
	addr netip.AddrPort
	udp  *net.UDPAddr
	text string

	timeoutsInARow atomic.Int32 // timeouts in a row
	trustedDenials atomic.Int32 // how many more NXDOMAIN in a row count without a check of the root
	downUntil      atomic.Int64 // Unix nanoseconds until which it is queried last
	deniesRoot     atomic.Bool  // it answered NXDOMAIN to the last query for the root
	answered       atomic.Bool  // it has replied to a query since New
	silent         atomic.Bool  // it left the last query for the root unanswered, and has replied to none since
}

// servers are those of a resolver, in the order of its configuration.
type servers []*server

func newServer(addr netip.AddrPort) *server {
	return &server{addr: addr, udp: net.UDPAddrFromAddrPort(addr), text: addr.String()}
}

// recordReply records whether the server replied at all. A SERVFAIL counts as a reply: it is about one domain.
func (s *server) recordReply(replied bool) {
	if replied {
		if !s.answered.Load() {
			s.answered.Store(true)
		}
		if s.timeoutsInARow.Load() != 0 {
			s.timeoutsInARow.Store(0)
			s.downUntil.Store(0)
			s.silent.Store(false)
		}
		return
	}
	if s.timeoutsInARow.Add(1) >= downAfter {
		s.downUntil.Store(time.Now().Add(downFor).UnixNano())
	}
}

// denialsBeforeCheck is how many NXDOMAIN in a row a server may send before the root is queried.
const denialsBeforeCheck = 64

// trustDenials records that the server knows a name, or at least does not deny the root.
func (s *server) trustDenials() {
	if s.trustedDenials.Load() != denialsBeforeCheck {
		s.trustedDenials.Store(denialsBeforeCheck)
		s.deniesRoot.Store(false)
	}
}

// needsRootCheck records an NXDOMAIN and reports whether the root must be queried before it counts.
func (s *server) needsRootCheck() bool {
	return s.trustedDenials.Load() <= 0 || s.trustedDenials.Add(-1) < 0
}

func (s *server) healthy(now time.Time) bool { return s.downUntil.Load() <= now.UnixNano() }

// order fills dst with the servers as configured, those that are down last, and returns how many there are.
// A server that is down is still queried when the others fail, and in its place again after downFor: that is the trial.
func (s servers) order(dst *[maxServers]*server) int {
	if len(s) == 1 {
		dst[0] = s[0]
		return 1
	}
	n, now := 0, time.Now()
	for _, up := range [2]bool{true, false} {
		for _, one := range s {
			if one.healthy(now) == up && n < maxServers {
				dst[n] = one
				n++
			}
		}
	}
	return n
}

// counters are what Stats shows.
type counters struct{ queries, timeouts, tcp, untrusted atomic.Int64 }

// Stats are totals since New.
type Stats struct {
	Queries          int64 // datagrams sent
	Timeouts         int64 // of these, unanswered in time
	TCP              int64 // queries that went on over TCP
	UntrustedAnswers int64 // NXDOMAIN of servers that deny the root as well
	Routes           int   // routes in the cache now
	Hosts            int   // hosts in the cache now
}

// Stats reads the counters.
func (r *Resolver) Stats() Stats {
	return Stats{
		Queries: r.counts.queries.Load(), Timeouts: r.counts.timeouts.Load(), TCP: r.counts.tcp.Load(),
		UntrustedAnswers: r.counts.untrusted.Load(),
		Routes:           r.routes.len(), Hosts: r.hosts.len(),
	}
}

// UntrustedServers are the servers that answered NXDOMAIN to the last query for the root, and have known no name since:
// their NXDOMAIN does not count.
func (r *Resolver) UntrustedServers() (servers []netip.AddrPort) {
	for _, s := range r.servers {
		if s.deniesRoot.Load() {
			servers = append(servers, s.addr)
		}
	}
	return servers
}

// SilentServers are the servers that do not answer at all. Each that left the last queries unanswered is queried for
// the root, whose answer every resolver has: a server that is only slow for some domains has an answer to that. It
// waits for these answers.
func (r *Resolver) SilentServers(ctx context.Context) (servers []netip.AddrPort) {
	for _, s := range r.servers {
		if s.timeoutsInARow.Load() < downAfter {
			continue
		}
		timeout := r.queryServer(ctx, s, question{kind: typeMX}).outcome == timedOut
		if ctx.Err() != nil {
			return nil
		}
		s.silent.Store(timeout)
		if timeout {
			servers = append(servers, s.addr)
		}
	}
	return servers
}

// NeverAnswered are the servers, if queries were sent and none of them has ever replied to one; else it is empty.
func (r *Resolver) NeverAnswered() (servers []netip.AddrPort) {
	if r.counts.queries.Load() == 0 {
		return nil
	}
	for _, s := range r.servers {
		if s.answered.Load() {
			return nil
		}
		servers = append(servers, s.addr)
	}
	return servers
}

// silent returns how many servers SilentServers found when it looked last, without those that have replied since.
func (s servers) silent() (n int) {
	for _, one := range s {
		if one.silent.Load() {
			n++
		}
	}
	return n
}
