package sim

import (
	"fmt"
	"net/netip"
	"time"
)

// Config defines one simulated internet. Each field says what its zero value
// means.
type Config struct {
	// Seed decides the population and every mailbox. 0 is a seed like any other.
	Seed uint64
	// Speedup divides waiting times and multiplies per-minute and per-hour limits;
	// 1 is real time, 0 is no waits and no limits.
	Speedup float64
	// Latency is "none" (also ""); "realistic": answers take as long as real
	// ones, divided by Speedup; or a duration: each batch of replies of a mail
	// host takes that long at any Speedup.
	Latency string
	// Network is the prefix of host addresses; the zero value is 127.16.0.0/12.
	Network netip.Prefix
	// SMTPPort is the one port of all hosts; 0 is 2525.
	SMTPPort int
	// DNS is where the name server listens, UDP and TCP; the zero value is 127.0.0.1:5353.
	DNS netip.AddrPort
	// Throttlers adds the receivers that throttle a source after many recipients.
	Throttlers bool
	// Tenants is the number of additional company domains, half of them at each of two gateways (proofpoint and barracuda). They
	// are not in lists, but in Addresses.
	Tenants int
	// Homes is the number of additional company domains with plain mail software, from home-0.example on. Each has its own host
	// names; a machine has a dozen domains, or more above 96,000. They are not in WriteList, but in WriteHomes.
	Homes int
	// HTTP is where the referee report is served; the zero value serves none.
	HTTP netip.AddrPort
}

// Default figures of a Config.
const (
	defaultSMTPPort = 2525
	defaultNetwork  = "127.16.0.0/12"
	defaultDNS      = "127.0.0.1:5353"
)

func (c Config) withDefaults() Config {
	if !c.Network.IsValid() {
		c.Network = netip.MustParsePrefix(defaultNetwork)
	}
	if c.SMTPPort == 0 {
		c.SMTPPort = defaultSMTPPort
	}
	if !c.DNS.IsValid() {
		c.DNS = netip.MustParseAddrPort(defaultDNS)
	}
	return c
}

// fixedLatency is the duration in Latency; 0 if Latency is one of the words.
func (c Config) fixedLatency() (time.Duration, error) {
	switch c.Latency {
	case "", "none", "realistic":
		return 0, nil
	}
	d, err := time.ParseDuration(c.Latency)
	if err != nil || d <= 0 || d > maxLatency {
		return 0, fmt.Errorf("latency %q: want none, realistic, or a duration up to %s", c.Latency, maxLatency)
	}
	return d, nil
}

// maxLatency is less than the reply timeout of clients.
const maxLatency = 5 * time.Second

// Oddity is how a persona's names look in the DNS.
type Oddity uint8

// The oddities. Those marked "decides" determine the outcome alone, whatever the
// persona's hosts would reply.
const (
	PlainDNS     Oddity = iota // MX and A records as they should be
	NXDomain                   // the domain does not exist; decides
	NoRecords                  // the domain exists, without MX and without address; decides
	NullMX                     // MX 0 . (RFC 7505); decides
	ServFail                   // the domain's zone is broken; decides
	HostServFail               // MX is there, the zone of its hosts is broken; decides
	CNAMELoop                  // the domain is an alias that leads back to itself; decides
	Unroutable                 // MX hosts resolve to 0.0.0.0 and 240.0.0.1 only; decides
	DanglingMX                 // MX hosts do not exist; decides
	ImplicitMX                 // no MX, an address record only (RFC 5321 section 5.1)
	CNAMEDomain                // the domain is an alias of a domain that has the MX
	CNAMEHost                  // the MX host is an alias (forbidden by RFC 2181 section 10.3, but in use)
	TruncatedUDP               // every answer over UDP has TC set and no records; TCP works
	IPv6Only                   // hosts have AAAA [::1] only
	DeadPrimary                // the preferred MX host refuses connections, the next one works
)

// MX is one mail exchanger of a domain.
type MX struct {
	Pref uint16
	Host string // lower case, no final dot
}

// Domain is one mail domain. MX is ordered by preference; it is empty for
// oddities that have none.
type Domain struct {
	Name    string // lower-case A-label, no final dot
	Persona *Persona
	MX      []MX
	Cluster int // hosts of one operator share a cluster; limits hold per source and cluster

	domainFlags
	key   uint64 // seeds its mailboxes
	route string // route that one source at a time may use; empty if it is wide
}

// Role is the role of a host for its domains.
type Role uint8

// The roles.
const (
	Primary Role = iota
	Backup
	Dead // listed in the DNS, nothing listens
)

// Host is one MX host. Several names may share an address; HostAt returns the
// first of them.
type Host struct {
	Name    string
	Addrs   []netip.Addr
	Persona *Persona
	Role    Role
	Cluster int
}
