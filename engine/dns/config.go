package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Config configures a Resolver. Servers, Dial and ListenPacket are required; other zero fields take the default.
type Config struct {
	// Servers are recursive resolvers in order of preference; at most 8 distinct ones.
	Servers []netip.AddrPort
	// Dial opens a TCP connection to a server, for answers that do not fit into a datagram (RFC 7766).
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ListenPacket opens one of the shared UDP sockets. It is called by Run with "udp" and ":0".
	ListenPacket func(ctx context.Context, network, addr string) (net.PacketConn, error)

	Timeout  time.Duration // of one try; default 2 s
	Attempts int           // tries of one question over all servers, at least one per server; default 3, at most 16
	// queries on the wire, or waiting until they fit into a burst; default 1,024, at most 16,384
	MaxInFlight int
	Sockets     int // shared UDP sockets; default 2, at most 16
	CacheSize   int // routes kept at most, and hosts; when full, the half used last stays; default 65,536

	MinTTL      time.Duration // a positive answer is kept at least this long; default 30 s
	MaxTTL      time.Duration // and at most this long; default 6 h
	NegativeTTL time.Duration // NXDOMAIN and NODATA are kept at most this long (RFC 2308 section 5); default 1 h
	FailureTTL  time.Duration // a failure to answer is kept this long (RFC 9520 section 3.2); default 5 s
}

const (
	maxServers  = 8
	maxAttempts = 16
	maxInFlight = 16384
	maxSockets  = 16
)

// withDefaults fills in the defaults and refuses what cannot work.
func (c Config) withDefaults() (Config, error) {
	c.Servers = Distinct(c.Servers)
	switch {
	case len(c.Servers) == 0:
		return c, errors.New("dns: no server is configured")
	case len(c.Servers) > maxServers:
		return c, fmt.Errorf("dns: %d servers are configured, at most %d are used", len(c.Servers), maxServers)
	case c.Dial == nil || c.ListenPacket == nil:
		return c, errors.New("dns: no way to reach a server is configured")
	}
	c.Timeout = orDefault(c.Timeout, 2*time.Second)
	c.Attempts = min(max(orDefault(c.Attempts, 3), len(c.Servers)), maxAttempts)
	c.MaxInFlight = min(orDefault(c.MaxInFlight, 1024), maxInFlight)
	c.Sockets = min(orDefault(c.Sockets, 2), maxSockets)
	c.CacheSize = orDefault(c.CacheSize, 1<<16)
	c.MinTTL = orDefault(c.MinTTL, 30*time.Second)
	c.MaxTTL = orDefault(c.MaxTTL, 6*time.Hour)
	c.NegativeTTL = orDefault(c.NegativeTTL, time.Hour)
	c.FailureTTL = orDefault(c.FailureTTL, 5*time.Second)
	return c, nil
}

// cacheTTL returns how long an answer may be cached.
func (c *Config) cacheTTL(a answer) time.Duration {
	ttl := time.Duration(a.ttl) * time.Second
	switch {
	case a.outcome == found:
		return min(max(ttl, c.MinTTL), c.MaxTTL)
	case a.outcome.failed() || a.unconfirmed:
		return c.FailureTTL
	}
	return min(ttl, c.NegativeTTL)
}

// orDefault is v, or d if v is zero or less.
func orDefault[T int | time.Duration](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}

// Distinct drops repeated servers: a server that is listed twice must not confirm its own NXDOMAIN.
func Distinct(servers []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, s := range servers {
		s = netip.AddrPortFrom(s.Addr().Unmap(), s.Port())
		if s.IsValid() && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
