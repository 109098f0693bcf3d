package dns

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	downAfter = 3                // timeouts in a row that make a server wait behind the others
	downFor   = 10 * time.Second // and for how long
)

// server is one recursive resolver and how it has been.
type server struct {
	addr netip.AddrPort
	udp  *net.UDPAddr
	text string

	timeoutsInARow atomic.Int32 // timeouts in a row
	trustedDenials atomic.Int32 // how many NXDOMAIN in a row are believed from now on
	downUntil      atomic.Int64 // Unix nanoseconds until which it is asked last
	deniesRoot     atomic.Bool  // the root, when it was asked about it last
}

func newServer(addr netip.AddrPort) *server {
	return &server{addr: addr, udp: net.UDPAddrFromAddrPort(addr), text: addr.String()}
}

// recordReply notes whether the server spoke at all. SERVFAIL for one domain is no illness of the server.
func (s *server) recordReply(replied bool) {
	if replied {
		if s.timeoutsInARow.Load() != 0 {
			s.timeoutsInARow.Store(0)
			s.downUntil.Store(0)
		}
		return
	}
	if s.timeoutsInARow.Add(1) >= downAfter {
		s.downUntil.Store(time.Now().Add(downFor).UnixNano())
	}
}

// denialsBeforeCheck is how many names a server may deny, none between that it knows, before it is asked about the root.
const denialsBeforeCheck = 64

// trustDenials notes that the server knows a name, or at least does not deny the root.
func (s *server) trustDenials() {
	if s.trustedDenials.Load() != denialsBeforeCheck {
		s.trustedDenials.Store(denialsBeforeCheck)
		s.deniesRoot.Store(false)
	}
}

// needsRootCheck notes that it denied one, and reports whether that wants proof.
func (s *server) needsRootCheck() bool {
	return s.trustedDenials.Load() <= 0 || s.trustedDenials.Add(-1) < 0
}

func (s *server) healthy(now time.Time) bool { return s.downUntil.Load() <= now.UnixNano() }

// order fills dst with the servers as configured, those that rest behind the others, and says how many there are.
// A server that rests is still asked when the others fail, and again first when its rest is over: that is the trial.
func (r *Resolver) order(dst *[maxServers]*server) int {
	if len(r.servers) == 1 {
		dst[0] = r.servers[0]
		return 1
	}
	n, now := 0, time.Now()
	for _, up := range [2]bool{true, false} {
		for _, s := range r.servers {
			if s.healthy(now) == up && n < maxServers {
				dst[n] = s
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

// UntrustedServers are the servers that denied the root when they were asked about it last, and have known nothing since: what they deny
// is not believed.
func (r *Resolver) UntrustedServers() (servers []netip.AddrPort) {
	for _, s := range r.servers {
		if s.deniesRoot.Load() {
			servers = append(servers, s.addr)
		}
	}
	return servers
}
