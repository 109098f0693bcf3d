package dnsd

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// reverse answers a PTR query for the address of a host.
func (s *Server) reverse(m *dns.Msg, q dns.Question) {
	addr, ok := fromReverse(strings.ToLower(q.Name))
	if !ok {
		m.Rcode = dns.RcodeNameError
		return
	}
	h, known := s.world.HostAt(addr)
	if !known {
		m.Rcode = dns.RcodeNameError
		return
	}
	m.Answer = append(m.Answer, &dns.PTR{Hdr: header(q.Name, dns.TypePTR), Ptr: dns.Fqdn(h.Name)})
}

// fromReverse parses an in-addr.arpa name into its IPv4 address (RFC 1035
// section 3.5).
func fromReverse(name string) (netip.Addr, bool) {
	digits, found := strings.CutSuffix(name, ".in-addr.arpa.")
	parts := strings.Split(digits, ".")
	if !found || len(parts) != 4 {
		return netip.Addr{}, false
	}
	var octets [4]byte
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return netip.Addr{}, false
		}
		octets[3-i] = byte(n)
	}
	return netip.AddrFrom4(octets), true
}
