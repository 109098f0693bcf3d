package world

import (
	"net/netip"
	"strings"

	"probity/bench/sim/persona"
)

// Hosts and addresses of a domain. Hosts of one provider, or of one operator, are
// a cluster. Vanity names are MX names of a customer that lead to an operator's
// machines: other routes, same addresses.

const (
	// vanityRatio: one company in vanityRatio names its hosts after its own domain.
	vanityRatio = 3
	// tenantAddresses is how many addresses the tenants' host names at a provider share.
	tenantAddresses = 4
	// manyConnections: a receiver that tolerates so many connections, and does not limit
	// refusals by the hour, may have several routes at one address.
	manyConnections = 20
)

// addressKey identifies what has one address: the host-th host of a site.
type addressKey struct {
	persona, hostDomain string
	host, tenant        int
}

// add makes one domain with its hosts and returns its index in w.domains.
// Hosts are named after the domain operator unless p names them otherwise.
func (b *builder) add(name string, p *persona.Persona, operator string, flags domainFlags) uint32 {
	d := Domain{Name: name, Persona: p, domainFlags: flags,
		key: mixBits(b.config.Seed ^ hashString(canonicalDomain(name)))}
	d.foldsDots = name == "gmail.com" || name == "googlemail.com"
	d.noDots = p.Provider == "qq" || p.Provider == "netease"
	d.Cluster = b.cluster(p, operator)
	hostDomain := b.hostDomain(&d, operator)
	if hasHosts(p.Oddity) {
		for i, host := range p.MXHosts(hostDomain) {
			d.MX = append(d.MX, MX{Pref: uint16(10 * (i + 1)), Host: host})
			b.addHost(host, i, &d, operator)
		}
	}
	d.Route = routeKey(&d)
	b.publishDomain(&d, operator)
	b.domains = append(b.domains, d)
	return uint32(len(b.domains) - 1)
}

// canonicalDomain is the domain whose mailboxes a domain has.
func canonicalDomain(name string) string {
	if name == "googlemail.com" {
		return "gmail.com"
	}
	return name
}

func hasHosts(odd persona.Oddity) bool {
	switch odd {
	case persona.NXDomain, persona.NoRecords, persona.NullMX, persona.ServFail, persona.CNAMELoop, persona.ImplicitMX:
		return false
	}
	return true
}

// hostDomain is the domain after which d's hosts are named.
func (b *builder) hostDomain(d *Domain, operator string) string {
	p := d.Persona
	tolerant := p.Limits.Connections == 0 || p.Limits.Connections >= manyConnections
	if p.Provider != "" || d.ownHosts || tolerant && p.Limits.RefusalsPerHour == 0 && d.key%vanityRatio == 0 {
		return d.Name
	}
	return operator
}

// cluster numbers the operators; a provider counts as one, and so does [::1].
func (b *builder) cluster(p *persona.Persona, operator string) int {
	key := p.Name
	if p.Provider == "" && !p.OneRoute && p.Oddity != persona.IPv6Only {
		key += "/" + operator
	}
	n, known := b.operators[key]
	if !known {
		n = len(b.operators)
		b.operators[key] = n
	}
	return n
}

// addHost makes the i-th MX host of d, once.
func (b *builder) addHost(name string, i int, d *Domain, operator string) {
	if _, known := b.names[name]; known {
		return
	}
	p := d.Persona
	switch p.Oddity {
	case persona.DanglingMX:
	case persona.HostServFail:
		b.names[name] = DNSRecords{ServFail: true}
	case persona.Unroutable:
		b.names[name] = DNSRecords{Addrs: []netip.Addr{netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{240, 0, 0, 1})}}
	case persona.CNAMEHost:
		target := "real-" + strings.ReplaceAll(name, ".", "-") + ".example"
		b.names[name] = DNSRecords{Alias: target}
		b.names[target] = DNSRecords{Addrs: b.hostAddress(name, i, d, operator)}
	default:
		b.names[name] = DNSRecords{Addrs: b.hostAddress(name, i, d, operator),
			TruncateUDP: p.Oddity == persona.TruncatedUDP}
	}
}

// publishDomain adds the records of the domain itself to the DNS.
func (b *builder) publishDomain(d *Domain, operator string) {
	switch d.Persona.Oddity {
	case persona.NXDomain:
	case persona.NoRecords:
		b.names[d.Name] = DNSRecords{}
	case persona.NullMX:
		b.names[d.Name] = DNSRecords{MX: []MX{{}}}
	case persona.ServFail:
		b.names[d.Name] = DNSRecords{ServFail: true}
	case persona.CNAMELoop:
		b.names[d.Name] = DNSRecords{Alias: "loop." + d.Name}
		b.names["loop."+d.Name] = DNSRecords{Alias: d.Name}
	case persona.CNAMEDomain:
		target := "real-" + strings.ReplaceAll(d.Name, ".", "-") + ".example"
		b.names[d.Name] = DNSRecords{Alias: target}
		b.names[target] = DNSRecords{MX: d.MX}
	case persona.ImplicitMX:
		b.names[d.Name] = DNSRecords{Addrs: b.hostAddress(d.Name, 0, d, operator)}
	default:
		b.names[d.Name] = DNSRecords{MX: d.MX, TruncateUDP: d.Persona.Oddity == persona.TruncatedUDP}
	}
}

// hostAddress finds or assigns the address of the i-th host of d, and records the
// host behind it.
func (b *builder) hostAddress(name string, i int, d *Domain, operator string) []netip.Addr {
	p := d.Persona
	key := addressKey{persona: p.Name, hostDomain: operator, host: i}
	if p.Oddity == persona.IPv6Only {
		key = addressKey{}
	} else if p.Provider != "" || p.OneRoute {
		key.hostDomain = ""
		if p.MXHosts("a.example")[i] != p.MXHosts("b.example")[i] {
			key.tenant = int(d.key % tenantAddresses)
		}
	}
	if addr, known := b.addresses[key]; known {
		return []netip.Addr{addr}
	}
	addr := b.nextAddress(key)
	b.addresses[key] = addr
	b.byAddr[addr] = &Host{Name: name, Addrs: []netip.Addr{addr}, Persona: p, Role: roleOf(p, i), Cluster: d.Cluster}
	return []netip.Addr{addr}
}

// nextAddress takes the next address of the network; the zero key is [::1].
func (b *builder) nextAddress(key addressKey) netip.Addr {
	if key == (addressKey{}) {
		return netip.IPv6Loopback()
	}
	b.addressCount++
	base := b.config.Network.Masked().Addr().As4()
	n := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	n += uint32(b.addressCount)
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func roleOf(p *persona.Persona, i int) Role {
	switch {
	case i > 0:
		return Backup
	case p.Oddity == persona.DeadPrimary:
		return Dead
	}
	return Primary
}
