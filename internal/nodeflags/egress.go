package nodeflags

import (
	"fmt"
	"net/netip"
	"strings"

	"probity/engine"
	"probity/engine/smtp"
	"probity/internal/console"
	"probity/prober/source"
)

// Egress is one --egress, as given. It may hold a password, which is not shown with the configuration. A named type for
// the list of all would make the parser refuse to repeat the flag.
type Egress string

// Proxy is --socks5, as given; the same holds for its password.
type Proxy string

// egressProxyOption precedes the proxy of one source.
const egressProxyOption = ",socks5="

// MarshalText returns the flag without its password.
func (p Proxy) MarshalText() ([]byte, error) { return []byte(redactProxy(string(p))), nil }

// String returns the flag without its password.
func (e Egress) String() string {
	before, proxy, ok := strings.Cut(string(e), egressProxyOption)
	if !ok {
		return string(e)
	}
	return before + egressProxyOption + redactProxy(proxy)
}

// MarshalText returns the flag without its password.
func (e Egress) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

func redactProxy(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "***" + s[i:]
	}
	return s
}

// addressLiteral reports an EHLO name that is an address in brackets (RFC 5321 section 4.1.3).
func addressLiteral(s string) bool {
	inside, ok := strings.CutPrefix(s, "[")
	inside, closed := strings.CutSuffix(inside, "]")
	v6, tagged := strings.CutPrefix(inside, "IPv6:")
	addr, err := netip.ParseAddr(v6)
	return ok && closed && err == nil && addr.Zone() == "" && addr.Is6() == tagged
}

// Parse reads the flag.
func (e Egress) Parse() (id source.Identity, err error) {
	// errors quote only what is before it: the proxy may have a password
	s, proxy, proxied := strings.Cut(string(e), egressProxyOption)
	addrs, ehlo, ok := strings.Cut(s, "=")
	if !ok || ehlo == "" {
		return source.Identity{}, fmt.Errorf("%w: --egress %q; write LOCAL[/PUBLIC]=EHLO-NAME, e.g. 192.0.2.10=mx.example.org", console.ErrUsage, s)
	}
	local, public, natted := strings.Cut(addrs, "/")
	id.EHLO = ehlo
	if proxied {
		if id.SOCKS5, err = smtp.ParseProxy(proxy); err != nil {
			return source.Identity{}, fmt.Errorf("%w: --egress %q, its socks5: %w", console.ErrUsage, s, err)
		}
	}
	_, err = engine.ParseDomain(ehlo)
	if err != nil && !addressLiteral(ehlo) {
		return source.Identity{}, fmt.Errorf("%w: --egress %q: the EHLO name: %v; give this address's host name, e.g. mx.example.org", console.ErrUsage, s, err)
	}
	if local != "" {
		if id.Local, err = netip.ParseAddr(local); err != nil {
			return source.Identity{}, fmt.Errorf("%w: --egress %q: %v", console.ErrUsage, s, err)
		}
	}
	id.Public = id.Local
	if natted {
		if id.Public, err = netip.ParseAddr(public); err != nil {
			return source.Identity{}, fmt.Errorf("%w: --egress %q: %v", console.ErrUsage, s, err)
		}
	}
	return id, nil
}

// ParseSource parses --callback-source: the address to bind, and the one to publish.
func ParseSource(s string) (local netip.Addr, published []string, err error) {
	if s == "" {
		return local, nil, nil
	}
	id, err := Egress(s + "=callbacks.invalid").Parse()
	if err != nil {
		return local, nil, fmt.Errorf("%w: --callback-source %q; write LOCAL[/PUBLIC], e.g. 192.0.2.10",
			console.ErrUsage, s)
	}
	if err := checkBindable(id.Local); err != nil {
		return local, nil, fmt.Errorf("%w: --callback-source %s: %v; give an address of this machine, and what receivers see behind a slash", console.ErrUsage, s, err)
	}
	return id.Local, []string{id.Public.String()}, nil
}
