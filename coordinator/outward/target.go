package outward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"

	"probity/internal/shownname"
)

const (
	maxURL      = 2048            // bytes
	checkLookup = 3 * time.Second // for the host name of a URL
)

// adviceForPrivate says what to do about an address that may not be reached.
const adviceForPrivate = "use a public one, or have the operator allow its network with --allow-private-callbacks"

// Target is the server of an acceptable URL.
type Target struct {
	URL  *url.URL   // without fragment
	Host string     // lower-case A-labels without a trailing dot, or an address without brackets
	addr netip.Addr // valid if Host is one
	port uint16
}

// IsIPv6 reports whether the URL has an IPv6 address instead of a name.
func (t *Target) IsIPv6() bool { return t.addr.Is6() }

// Check refuses a URL that Connect would not connect to. A name with only forbidden addresses is refused. A name that
// cannot be resolved now is not: Connect checks the address that it dials.
func (d *Dialer) Check(ctx context.Context, raw string) error {
	t, err := d.Parse(raw)
	if err != nil || t.addr.IsValid() {
		return err
	}
	ctx, done := context.WithTimeout(ctx, checkLookup)
	defer done()
	found, err := d.cfg.Lookup(ctx, t.Host)
	if err != nil || len(found) == 0 {
		return nil
	}
	for _, a := range found {
		if d.mayReach(a) {
			return nil
		}
	}
	return fmt.Errorf("%s leads to a private, loopback or reserved address; %s", t.Host, adviceForPrivate)
}

// Parse parses a URL and checks all that needs no DNS lookup. An error says what to do.
func (d *Dialer) Parse(raw string) (*Target, error) {
	if err := shownname.Check(raw, maxURL); err != nil { // it is shown
		return nil, fmt.Errorf("it %w", err)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL; use one like https://example.com/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("it must begin with http:// or https://")
	case u.User != nil:
		return nil, errors.New("it must not contain a user name or password; put a secret into the path or query")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("it has no host; use one like https://example.com/path")
	}
	u.Fragment, u.RawFragment = "", ""
	t := &Target{URL: u}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is not a port; use a number from 1 to 65535, or none", port)
	}
	if n == 25 || n == 465 || n == 587 { // only the prober may connect to them
		return nil, fmt.Errorf("port %d is for mail; use one that speaks HTTP", n)
	}
	t.port = uint16(n)
	host := u.Hostname()
	if addr, noAddress := netip.ParseAddr(host); noAddress == nil {
		if addr.Zone() != "" {
			return nil, errors.New("an address with a zone is local to one machine; use a public one")
		}
		t.addr = addr.Unmap()
		t.Host = t.addr.String()
	} else {
		t.Host = strings.ToLower(strings.TrimSuffix(host, "."))
		if strings.ContainsFunc(t.Host, func(r rune) bool { return r >= utf8.RuneSelf }) {
			t.Host, err = idna.Lookup.ToASCII(t.Host)
		}
		if err != nil || !hostName(t.Host) {
			return nil, fmt.Errorf("%q is not a host name; check its spelling", host)
		}
		if endsInNumber(t.Host) {
			return nil, fmt.Errorf("%q is neither a host name nor an IP address in its usual form; use one of them",
				host)
		}
	}
	// A local name always means this machine (RFC 6761 section 6.3).
	localName := t.Host == "localhost" || strings.HasSuffix(t.Host, ".localhost")
	loopback := d.mayReach(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || d.mayReach(netip.IPv6Loopback())
	if t.addr.IsValid() && !d.mayReach(t.addr) || localName && !loopback {
		return nil, fmt.Errorf("%s is a private, loopback or reserved address; %s", t.Host,
			adviceForPrivate)
	}
	return t, nil
}

// hostName reports whether s is made of labels that a DNS name can have (RFC 1035 section 2.3.4). Underscores are
// allowed: service names inside an intranet have them.
func hostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// endsInNumber reports whether resolvers may read the name as an address in an old notation: 127.1, 2130706433, 0x7f.1.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// mayReach reports whether an address may be connected to.
func (d *Dialer) mayReach(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && d.guard.SafeAddr(a.Unmap()) == nil
}

// newGuard forbids all special-purpose addresses except the networks that the operator allows, and the public address
// at which Azure serves its own machines.
func newGuard(allow []netip.Prefix) *ssrf.Guardian {
	var v4, v6 []netip.Prefix
	for _, p := range allow {
		if p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	azure := netip.PrefixFrom(netip.AddrFrom4([4]byte{168, 63, 129, 16}), 32)
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork(), ssrf.WithAllowedV4Prefixes(v4...),
		ssrf.WithAllowedV6Prefixes(v6...),
		ssrf.WithDeniedV4Prefixes(azure))
}
