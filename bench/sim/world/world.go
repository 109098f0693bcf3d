package world

import (
	"fmt"
	"net/netip"

	"probity/bench/sim/persona"
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
	// SMTPPort is the one port of all hosts; 0 is 2525, AnyPort one that is free.
	SMTPPort int
	// DNS is where the name server listens, UDP and TCP; the zero value is 127.0.0.1:5353.
	DNS netip.AddrPort
	// Throttlers adds the receivers that throttle a source after many recipients.
	Throttlers bool
	// Tenants is the number of additional company domains, half of them at each of two gateways (proofpoint and
	// barracuda). They are not in lists, but in Addresses.
	Tenants int
	// Homes is the number of additional company domains with plain mail software, from home-0.example on. Each has its
	// own host names; a machine has a dozen domains, or more above 96,000. They are not in WriteList, but in
	// WriteHomes.
	Homes int
	// Hostile adds the receivers whose replies mislead a client. They are not in WriteList, but in WriteHostile.
	Hostile bool
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

// Check refuses a Config that is not valid.
func (c Config) Check() error {
	c = c.withDefaults()
	switch {
	case !c.Network.Addr().Is4() || c.Network.Bits() > 20:
		return fmt.Errorf("network %s: want IPv4 with 4,096 addresses or more", c.Network)
	case c.SMTPPort < AnyPort || c.SMTPPort > 65535:
		return fmt.Errorf("smtp port %d: want 1 to 65535", c.SMTPPort)
	case c.Speedup < 0:
		return fmt.Errorf("speed-up %g: want 0 or more", c.Speedup)
	}
	_, err := c.fixedLatency()
	return err
}

// AnyPort as Config.SMTPPort selects a free port.
const AnyPort = -1

// MX is one mail exchanger of a domain.
type MX struct {
	Pref uint16
	Host string // lower case, no final dot
}

// Domain is one mail domain. MX is ordered by preference; it is empty for
// oddities that have none.
type Domain struct {
	Name    string // lower-case A-label, no final dot
	Persona *persona.Persona
	MX      []MX
	Cluster int    // hosts of one operator share a cluster; limits hold per source and cluster
	Route   string // what one source at a time may use: see routeKey; empty if it is wide

	domainFlags
	key uint64 // seeds its mailboxes
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
	Persona *persona.Persona
	Role    Role
	Cluster int
}
