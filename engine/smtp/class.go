package smtp

import "net/netip"

// Class says whether an address can be a mail server's.
type Class uint8

// The classes; the zero value is never dialled.
const (
	Bogus   Class = iota // of no host, or not of a single host: never dialled
	Private              // of a local network: dialled only with AllowPrivate
	Public
)

// network is one row of the special-purpose registries (RFC 6890 and its updates).
type network struct {
	prefix netip.Prefix
	class  Class
}

func in(prefix string, class Class) network { return network{netip.MustParsePrefix(prefix), class} }

// special has the more specific rows first. It is never written to.
var special = [...]network{
	in("169.254.169.254/32", Bogus), // cloud metadata: an answer there would be a leak on our side
	in("100.100.100.200/32", Bogus),
	in("fd00:ec2::254/128", Bogus),

	in("0.0.0.0/8", Bogus),        // this network (RFC 791)
	in("10.0.0.0/8", Private),     // RFC 1918
	in("100.64.0.0/10", Private),  // carrier-grade NAT (RFC 6598)
	in("127.0.0.0/8", Private),    // loopback (RFC 1122)
	in("169.254.0.0/16", Private), // link-local (RFC 3927)
	in("172.16.0.0/12", Private),
	in("192.0.0.0/24", Bogus),   // protocol assignments (RFC 6890)
	in("192.0.2.0/24", Bogus),   // documentation (RFC 5737)
	in("192.88.99.0/24", Bogus), // 6to4 relays, withdrawn (RFC 7526)
	in("192.168.0.0/16", Private),
	in("198.18.0.0/15", Private), // benchmarks (RFC 2544)
	in("198.51.100.0/24", Bogus),
	in("203.0.113.0/24", Bogus),
	in("224.0.0.0/3", Bogus), // multicast (RFC 5771), reserved (RFC 1112), broadcast (RFC 919)

	in("::1/128", Private),
	in("64:ff9b:1::/48", Private), // local NAT64 (RFC 8215)
	in("2001::/23", Bogus),        // Teredo, ORCHID and other protocols (RFC 2928)
	in("2001:db8::/32", Bogus),    // documentation (RFC 3849)
	in("3fff::/20", Bogus),        // documentation (RFC 9637)
	in("2000::/3", Public),        // all that is allocated (RFC 4291 section 2.4)
	in("fc00::/7", Private),       // unique local (RFC 4193)
	in("fe80::/10", Private),      // link-local
	in("fec0::/10", Private),      // site-local, withdrawn (RFC 3879)
	in("::/0", Bogus),             // unspecified, compatible, discard-only, multicast, never allocated
}

// ClassOf classifies an address. One that embeds an IPv4 address (mapped, 6to4, NAT64) has the class of that address.
func ClassOf(addr netip.Addr) Class {
	addr = embedded(addr.WithZone("").Unmap())
	if !addr.IsValid() {
		return Bogus
	}
	for _, n := range special {
		if n.prefix.Contains(addr) {
			return n.class
		}
	}
	return Public
}

// embedded is the IPv4 address within a 6to4 (RFC 3056 section 2) or NAT64 (RFC 6052 section 2.2) address, else addr.
func embedded(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6]))
	case [12]byte(b[:12]) == [12]byte{0, 0x64, 0xff, 0x9b}:
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}
