package dns

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	sickAfter = 3                // timeouts in a row that make a server wait behind the others
	restFor   = 10 * time.Second // and for how long
)

// server is one recursive resolver and how it has been.
type server struct {
	addr netip.AddrPort
	udp  *net.UDPAddr
	text string

	silent atomic.Int32 // timeouts in a row
	trust  atomic.Int32 // how many NXDOMAIN in a row are believed from now on
	rested atomic.Int64 // Unix nanoseconds until which it is asked last
	denies atomic.Bool  // the root, when it was asked about it last
}

func newServer(addr netip.AddrPort) *server {
	return &server{addr: addr, udp: net.UDPAddrFromAddrPort(addr), text: addr.String()}
}

// saw notes whether the server spoke at all. SERVFAIL for one domain is no illness of the server.
func (s *server) saw(spoke bool) {
	if spoke {
		if s.silent.Load() != 0 {
			s.silent.Store(0)
			s.rested.Store(0)
		}
		return
	}
	if s.silent.Add(1) >= sickAfter {
		s.rested.Store(time.Now().Add(restFor).UnixNano())
	}
}

// deniedInARow is how many names a server may deny, none between that it knows, before it is asked about the root.
const deniedInARow = 64

// knew notes that the server knows a name, or at least does not deny the root.
func (s *server) knew() {
	if s.trust.Load() != deniedInARow {
		s.trust.Store(deniedInARow)
		s.denies.Store(false)
	}
}

// denied notes that it denied one, and reports whether that wants proof.
func (s *server) denied() bool { return s.trust.Load() <= 0 || s.trust.Add(-1) < 0 }

func (s *server) healthy(now time.Time) bool { return s.rested.Load() <= now.UnixNano() }

// order fills dst with the servers as configured, those that rest behind the others, and says how many there are.
// A server that rests is still asked when the others fail, and again first when its rest is over: that is the canary.
func (r *Resolver) order(dst *[maxServers]*server) int {
	if len(r.servers) == 1 {
		dst[0] = r.servers[0]
		return 1
	}
	n, now := 0, time.Now()
	for _, well := range [2]bool{true, false} {
		for _, s := range r.servers {
			if s.healthy(now) == well && n < maxServers {
				dst[n] = s
				n++
			}
		}
	}
	return n
}

// counters are what Stats shows.
type counters struct{ queries, timeouts, tcp, disbelieved atomic.Int64 }

// Stats are totals since New.
type Stats struct {
	Queries     int64 // datagrams sent
	Timeouts    int64 // of these, unanswered in time
	TCP         int64 // queries that went on over TCP
	Disbelieved int64 // NXDOMAIN of servers that deny the root as well
	Routes      int   // routes in the cache now
	Hosts       int   // hosts in the cache now
}

// Stats reads the counters.
func (r *Resolver) Stats() Stats {
	return Stats{
		Queries: r.counts.queries.Load(), Timeouts: r.counts.timeouts.Load(), TCP: r.counts.tcp.Load(),
		Disbelieved: r.counts.disbelieved.Load(),
		Routes:      r.routes.len(), Hosts: r.hosts.len(),
	}
}

// Denying are the servers that denied the root when they were asked about it last, and have known nothing since: what they deny
// is not believed.
func (r *Resolver) Denying() (servers []netip.AddrPort) {
	for _, s := range r.servers {
		if s.denies.Load() {
			servers = append(servers, s.addr)
		}
	}
	return servers
}
