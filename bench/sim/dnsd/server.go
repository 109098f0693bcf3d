package dnsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"

	"probity/bench/sim/world"
)

// Times to live, in seconds: the negative one is the SOA's last field (RFC 2308).
const (
	ttlRecord   = 3600
	ttlNegative = 300
)

// Server answers for all names: the records of the world, and NXDOMAIN for
// the rest. It claims recursion, as clients expect of a resolver.
type Server struct {
	world *world.World
	delay time.Duration
}

// New makes a name server for the domains of a world. It starts nothing.
func New(w *world.World) *Server {
	return &Server{world: w, delay: w.DNSLatency()}
}

// Serve answers on both sockets until ctx is done, and closes them.
func (s *Server) Serve(ctx context.Context, packets net.PacketConn, listener net.Listener) error {
	udp := &dns.Server{PacketConn: packets, Handler: s}
	tcp := &dns.Server{Listener: listener, Handler: s}
	ended := make(chan error, 2)
	go func() { ended <- udp.ActivateAndServe() }()
	go func() { ended <- tcp.ActivateAndServe() }()
	var first error
	running := 2
	select {
	case <-ctx.Done():
	case first = <-ended:
		running--
	}
	shutdown(udp, packets)
	shutdown(tcp, listener)
	for range running {
		first = cmp.Or(first, <-ended)
	}
	if ctx.Err() != nil || errors.Is(first, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("dns: %w", first)
}

// shutdown stops a server and lets its handlers finish, without waiting for idle
// TCP clients. If the server has not begun to serve, its socket is closed.
func shutdown(s *dns.Server, socket io.Closer) {
	if s.Shutdown() != nil {
		_ = socket.Close()
	}
}

// ServeDNS answers one query.
func (s *Server) ServeDNS(rw dns.ResponseWriter, query *dns.Msg) {
	if s.delay > 0 {
		time.Sleep(s.delay)
	}
	_, udp := rw.RemoteAddr().(*net.UDPAddr)
	answer := s.answer(query, udp)
	// The client may have gone away.
	_ = rw.WriteMsg(answer)
}

// answer is the whole reply to a query.
func (s *Server) answer(query *dns.Msg, udp bool) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.RecursionAvailable = true
	if len(query.Question) != 1 || query.Opcode != dns.OpcodeQuery {
		m.Rcode = dns.RcodeNotImplemented
		return m
	}
	q := query.Question[0]
	if reversed := strings.HasSuffix(strings.ToLower(q.Name), ".arpa."); reversed && q.Qtype == dns.TypePTR {
		s.reverse(m, q)
	} else {
		s.forward(m, q, udp)
	}
	if m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError {
		if len(m.Answer) == 0 && !m.Truncated {
			m.Ns = append(m.Ns, soa(q.Name))
		}
	}
	if opt := query.IsEdns0(); opt != nil {
		m.SetEdns0(1232, false)
	}
	return m
}

// forward follows aliases (RFC 1034 section 3.6.2). It ends a loop with
// SERVFAIL, as resolvers do.
func (s *Server) forward(m *dns.Msg, q dns.Question, udp bool) {
	owner := q.Name
	name := strings.TrimSuffix(strings.ToLower(q.Name), ".")
	for range 8 {
		r, known := s.world.RecordsOf(name)
		switch {
		case !known:
			m.Rcode = s.absentCode(name)
			return
		case r.ServFail:
			m.Rcode, m.Answer = dns.RcodeServerFailure, nil
			return
		case r.TruncateUDP && udp:
			m.Truncated = true
			return
		case r.Alias == "" || q.Qtype == dns.TypeCNAME:
			m.Answer = append(m.Answer, answers(r, owner, q.Qtype)...)
			return
		}
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME), Target: dns.Fqdn(r.Alias)})
		name, owner = r.Alias, dns.Fqdn(r.Alias)
	}
	m.Rcode, m.Answer = dns.RcodeServerFailure, nil
}

// absentCode is the code for a name without records: NOERROR if names exist
// below it (RFC 8020), else NXDOMAIN.
func (s *Server) absentCode(name string) int {
	if s.world.IsEmptyNonTerminal(name) {
		return dns.RcodeSuccess
	}
	return dns.RcodeNameError
}

// answers lists a name's records of one type.
func answers(r world.DNSRecords, owner string, kind uint16) []dns.RR {
	var all []dns.RR
	switch kind {
	case dns.TypeMX:
		for _, mx := range r.MX {
			all = append(all, &dns.MX{Hdr: header(owner, kind), Preference: mx.Pref, Mx: dns.Fqdn(mx.Host)})
		}
	case dns.TypeA:
		for _, addr := range r.Addrs {
			if addr.Is4() {
				all = append(all, &dns.A{Hdr: header(owner, kind), A: addr.AsSlice()})
			}
		}
	case dns.TypeAAAA:
		for _, addr := range r.Addrs {
			if addr.Is6() {
				all = append(all, &dns.AAAA{Hdr: header(owner, kind), AAAA: addr.AsSlice()})
			}
		}
	case dns.TypeCNAME:
		if r.Alias != "" {
			all = append(all, &dns.CNAME{Hdr: header(owner, kind), Target: dns.Fqdn(r.Alias)})
		}
	}
	return all
}

func header(owner string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: kind, Class: dns.ClassINET, Ttl: ttlRecord}
}

// soa is the authority record of a negative answer. The zone is assumed to begin
// two labels from the root.
func soa(name string) dns.RR {
	labels := dns.SplitDomainName(name)
	zone := dns.Fqdn(strings.Join(labels[max(0, len(labels)-2):], "."))
	h := header(zone, dns.TypeSOA)
	h.Ttl = ttlNegative
	return &dns.SOA{Hdr: h, Ns: "ns.sim.example.", Mbox: "hostmaster.sim.example.",
		Serial: 1, Refresh: 7200, Retry: 900, Expire: 1209600, Minttl: ttlNegative}
}
