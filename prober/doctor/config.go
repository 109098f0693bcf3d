package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	resolver "probity/engine/dns"
	"probity/engine/smtp"
)

// Exchange asks one DNS server over "udp" or "tcp" and gives its reply; an error where none came.
type Exchange func(ctx context.Context, network string, m *dns.Msg, server netip.AddrPort) (*dns.Msg, error)

// Identity is one egress source of this node.
type Identity struct {
	Local  netip.Addr // source address; the zero value leaves it to the system
	Public netip.Addr // what receivers see; the zero value: Local
	EHLO   string     // the name we greet with
	SOCKS5 smtp.Proxy // connects for it; the zero value: the one of Config
}

// public is the address that receivers see; invalid where neither is given.
func (i Identity) public() netip.Addr {
	if i.Public.IsValid() {
		return i.Public.Unmap()
	}
	return i.Local.Unmap()
}

// name returns how the identity is called in findings.
func (i Identity) name() string {
	if p := i.public(); p.IsValid() {
		return p.String()
	}
	return printable(i.EHLO)
}

// Callbacks are where callbacks come from.
type Callbacks struct {
	Public netip.Addr // the address that receivers see and are told; invalid where none is configured
}

// Config is what is audited and through what. Exchange, Dial and Table are needed.
type Config struct {
	Identities []Identity       // at most 512
	MailFrom   string           // our reverse-path
	Servers    []netip.AddrPort // recursive resolvers; at most 8 distinct ones
	Table      *engine.Table    // tells what a mail server's reply to us means
	Exchange   Exchange
	Dial       smtp.DialFunc
	SOCKS5     smtp.Proxy // connects for identities that have none of their own

	// AllowPrivate takes private and loopback addresses for public ones: for tests and the simulated internet.
	AllowPrivate bool
	Port         uint16   // of mail servers; default 25
	Target       string   // host[:port] to connect to in place of the MX of MAIL FROM: its owner must have agreed
	DNSBLs       []string // zones of blocklists of addresses, at most 32; nil takes DefaultDNSBLs, empty asks none

	// Callbacks are the callbacks that this machine sends; nil for a machine that sends none.
	Callbacks *Callbacks

	OpenFiles func() (soft, hard uint64, err error) // RLIMIT_NOFILE; nil: cannot tell
	Sessions  int                                   // SMTP sessions that the file limit should allow; default 1,000

	FS        vfs.FS // of Folder; nil: the store is not looked at
	Folder    string // of the store
	FreeFloor uint64 // bytes; below it uploads are refused; default 1 GiB

	// Synced reports whether a time service keeps the system's clock right; known is false if the system does not say.
	Synced    func() (synced, known bool)
	NotBefore time.Time // a moment that is surely past: a clock before it is wrong; zero for none

	Interval time.Duration         // between audits of Run; default 1 h
	Timeout  time.Duration         // of one audit; default 2 min
	Query    time.Duration         // of one DNS query; default 3 s
	SMTP     smtp.Timeouts         // of a session; zero fields take that package's defaults
	Connect  time.Duration         // of one TCP connect; default 15 s
	Log      *slog.Logger          // default: none
	Metrics  prometheus.Registerer // default: none
}

// The bounds of invariant 5.
const (
	maxIdentities = 512
	maxServers    = 8
	maxDNSBLs     = 32
	maxQueries    = 8000
	maxAtOnce     = 8
)

// DefaultDNSBLs are blocklists that many receivers use. All of them limit what may be asked without registration, and
// some refuse public resolvers: an hourly audit of few addresses through a resolver of one's own is within their terms.
func DefaultDNSBLs() []string {
	return []string{"zen.spamhaus.org", "b.barracudacentral.org", "bl.spamcop.net", "psbl.surriel.com"}
}

// withDefaults fills in the defaults and refuses what cannot work.
func (c Config) withDefaults() (Config, error) {
	c.Servers = resolver.Distinct(c.Servers)
	if c.DNSBLs == nil {
		c.DNSBLs = DefaultDNSBLs()
	}
	switch {
	case c.Exchange == nil || c.Dial == nil || c.Table == nil:
		return c, errors.New("doctor: Exchange, Dial and Table are needed")
	case len(c.Identities) > maxIdentities:
		return c, fmt.Errorf("doctor: %d egress identities: at most %d", len(c.Identities), maxIdentities)
	case len(c.Servers) > maxServers:
		return c, fmt.Errorf("doctor: %d resolvers: at most %d", len(c.Servers), maxServers)
	case len(c.DNSBLs) > maxDNSBLs:
		return c, fmt.Errorf("doctor: %d blocklists: at most %d", len(c.DNSBLs), maxDNSBLs)
	}
	for _, zone := range c.DNSBLs {
		if !hostName(zone) {
			return c, fmt.Errorf("doctor: blocklist %q is not a domain name", zone)
		}
	}
	c.Port, c.Sessions, c.FreeFloor = orElse(c.Port, 25), orElse(c.Sessions, 1000), orElse(c.FreeFloor, 1<<30)
	c.Interval, c.Timeout = orElse(c.Interval, time.Hour), orElse(c.Timeout, 2*time.Minute)
	c.Query, c.Connect = orElse(c.Query, 3*time.Second), orElse(c.Connect, 15*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// orElse is v, or d where v is zero or less.
func orElse[T uint16 | uint64 | int | time.Duration](v, d T) T {
	if v > 0 {
		return v
	}
	return d
}
