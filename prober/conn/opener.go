package conn

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"time"

	"probity/engine"
	"probity/engine/dns"
	"probity/engine/smtp"
	"probity/prober/hosthealth"
	"probity/prober/source"
)

// Opener opens connections. Its exported fields are set before it is used; then it is safe for concurrent use.
type Opener struct {
	Resolver       *dns.Resolver
	IPv6           *source.Source // connects to IPv6 addresses for all sources; nil for none
	DialFunc       smtp.DialFunc
	SOCKS5         smtp.Proxy // of sources without one of their own
	AllowPrivate   bool       // private and loopback addresses may be asked
	Port           uint16     // of mail servers
	MailFrom       string     // reverse-path without brackets
	Timeouts       smtp.Timeouts
	ConnectTimeout time.Duration // limit of one TCP connect

	tickets tickets
}

// Addresses returns the addresses of a host that this node may and can connect to for a source, in DNS order: at most
// maxAddresses, of both families if there are both. The event is engine.EventReply, or says why there are none.
func (o *Opener) Addresses(ctx context.Context, host string, src *source.Source) ([]netip.Addr, engine.Event) {
	addrs, fact := o.Resolver.Addrs(ctx, host, o.IPv6 != nil)
	switch fact {
	case engine.FactServFail, engine.FactDNSTimeout, engine.FactUnasked:
		return nil, engine.EventHostServFail
	}
	event := engine.EventNoAddress
	allowed := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		class := smtp.ClassOf(a)
		switch {
		case class == smtp.Bogus, class == smtp.Private && !o.AllowPrivate:
			if event == engine.EventNoAddress {
				event = engine.EventRefusedHost
			}
		case o.SourceFor(a.Unmap(), src) != nil:
			allowed = append(allowed, a.Unmap())
		default:
			event = engine.EventNoEgress
		}
	}
	if len(allowed) > 0 {
		event = engine.EventReply
	}
	return firstAddresses(allowed), event
}

// maxAddresses is how many addresses of a host are tried. RFC 5321 section 5.1 wants at least two.
const maxAddresses = 4

// firstAddresses are the first of a list, the last of them of another family than the first if the list has one.
func firstAddresses(all []netip.Addr) []netip.Addr {
	if len(all) <= maxAddresses {
		return all
	}
	first := all[:maxAddresses:maxAddresses]
	other := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is4() != all[0].Is4() })
	if other >= maxAddresses {
		first[maxAddresses-1] = all[other]
	}
	return first
}

// SourceFor is the source that can connect to an address: src, or the one that reaches IPv6 hosts. It is nil if there
// is none.
func (o *Opener) SourceFor(a netip.Addr, src *source.Source) *source.Source {
	if a.Is4() != src.ReachesIPv6() {
		return src
	}
	if a.Is6() {
		return o.IPv6
	}
	return nil
}

// LacksIdentity reports whether src must not connect to a: that is public, and no EHLO host name or no MAIL FROM is
// configured.
func (o *Opener) LacksIdentity(src *source.Source, a netip.Addr) bool {
	return (o.MailFrom == "" || !src.HasHostName()) && smtp.ClassOf(a) != smtp.Private
}

// Dial connects to a mail server's address from a source.
func (o *Opener) Dial(ctx context.Context, src *source.Source, a netip.Addr) (net.Conn, smtp.Fault) {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	d := smtp.Dialer{Local: src.Local, SOCKS5: src.Proxy(o.SOCKS5), AllowPrivate: o.AllowPrivate, Dial: o.DialFunc}
	return d.DialContext(ctx, netip.AddrPortFrom(a, o.Port))
}

// Host is a mail server to greet.
type Host struct {
	Name     string
	Provider *engine.Provider
	Unknown  bool // of no known provider: it shares no tickets
	NoTLS    bool // TLS has failed here: plain text, unless the provider requires TLS
	Dialogue hosthealth.Dialogue
	Patience func() bool // see smtp.Config
}

// settle is how long a command to a host that was out of step waits for a reply that answers none: a second reply that
// is sent within that time of the first is seen.
const settle = 300 * time.Millisecond

// Greet begins an SMTP session on a connection: the banner, EHLO and TLS. A connection that fails is closed.
func (o *Opener) Greet(ctx context.Context, conn net.Conn, src *source.Source, host Host) (*smtp.Session, smtp.Fault) {
	c := smtp.Config{EHLO: src.EHLO, MailFrom: o.MailFrom, TLS: host.Provider.TLS, Timeouts: o.Timeouts,
		MaxBytes: maxReplyBytes, TLSConfig: clientTLS,
		Patience: host.Patience}
	if c.EHLO == "" {
		c.EHLO = "[127.0.0.1]" // only private hosts are probed without a name
	}
	if !host.Unknown {
		c.TLSConfig = o.tickets.resume(clientTLS, host.Provider.ID, host.Name)
	}
	if host.NoTLS && c.TLS == engine.TLSOpportunistic {
		c.TLS = engine.TLSNever
	}
	c.OneByOne = host.Dialogue.Careful
	if c.OneByOne && !host.Dialogue.Confirmed {
		c.Settle = settle
	}
	return smtp.Open(ctx, conn, c, host.Name)
}

// maxReplyBytes bounds what a server may send in one session: 1,600 bytes for each of 5,000 replies.
const maxReplyBytes = 8 << 20

// clientTLS is the TLS configuration of all sessions. The host's certificate is not verified: no mail passes, and most
// MX hosts have no name that could be verified (RFC 7672 section 1.3). For the same reason no post-quantum key is
// exchanged: it slows the handshake, and some servers fail on a ClientHello of two packets. X25519 is not offered
// either: P-256 is faster (BenchmarkHandshake), and every server must support it (RFC 8446 section 9.1).
var clientTLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10,
	CurvePreferences: []tls.CurveID{tls.CurveP256, tls.CurveP384, tls.CurveP521}}
