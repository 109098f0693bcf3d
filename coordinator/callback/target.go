package callback

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
	checkLookup = 3 * time.Second // for the host name of a submitted URL
)

// adviceForPrivate says what to do about an address that callbacks may not go to.
const adviceForPrivate = "use a public one, or have the operator allow its network with --allow-private-callbacks"

// ErrURL begins every refusal of a callback URL; the text after it says what to do.
var ErrURL = errors.New("callback_url")

// target is an acceptable callback URL.
type target struct {
	url    *url.URL // without fragment
	host   string   // lower-case A-labels without a trailing dot, or an address without brackets
	addr   netip.Addr
	port   uint16
	secure bool
}

// CheckURL refuses a URL that no callback would be sent to. A name with only forbidden addresses is refused. A name
// that cannot be resolved now is not: each attempt checks the address that it dials.
func (s *Sender) CheckURL(ctx context.Context, raw string) error {
	d := s.dialer
	t, err := d.parseTarget(raw)
	if err != nil || t.addr.IsValid() {
		return err
	}
	ctx, done := context.WithTimeout(ctx, checkLookup)
	defer done()
	found, err := d.lookup(ctx, t.host)
	if err != nil || len(found) == 0 {
		return nil
	}
	for _, a := range found {
		if d.mayReach(a) {
			return nil
		}
	}
	return refuseURL("%s leads to a private, loopback or reserved address, where callbacks are not sent; %s", t.host,
		adviceForPrivate)
}

func refuseURL(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrURL}, args...)...)
}

// parseTarget parses a callback URL and checks all that needs no DNS lookup.
func (d *dialer) parseTarget(raw string) (*target, error) {
	if err := shownname.Check(raw, maxURL); err != nil { // the record of the job and its callback show it
		return nil, fmt.Errorf("%w %w", ErrURL, err)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, refuseURL("it is not a URL; use one like https://example.com/hook")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, refuseURL("it must begin with http:// or https://")
	case u.User != nil:
		return nil, refuseURL("it must not contain a user name or password; put a secret into the path or query")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, refuseURL("it has no host; use one like https://example.com/hook")
	}
	u.Fragment, u.RawFragment = "", ""
	t := &target{url: u, secure: u.Scheme == "https"}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return nil, refuseURL("%q is not a port; use a number from 1 to 65535, or none", port)
	}
	if n == 25 || n == 465 || n == 587 { // only the prober may connect to them
		return nil, refuseURL("port %d is for mail; use one that speaks HTTP", n)
	}
	t.port = uint16(n)
	host := u.Hostname()
	if addr, noAddress := netip.ParseAddr(host); noAddress == nil {
		if addr.Zone() != "" {
			return nil, refuseURL("an address with a zone is local to one machine; use a public one")
		}
		t.addr = addr.Unmap()
		t.host = t.addr.String()
	} else {
		t.host = strings.ToLower(strings.TrimSuffix(host, "."))
		if strings.ContainsFunc(t.host, func(r rune) bool { return r >= utf8.RuneSelf }) {
			t.host, err = idna.Lookup.ToASCII(t.host)
		}
		if err != nil || !hostName(t.host) {
			return nil, refuseURL("%q is not a host name; check its spelling", host)
		}
		if endsInNumber(t.host) {
			return nil, refuseURL("%q is neither a host name nor an IP address in its usual form; use one of them",
				host)
		}
	}
	// A local name always means this machine (RFC 6761 section 6.3).
	localName := t.host == "localhost" || strings.HasSuffix(t.host, ".localhost")
	loopback := d.mayReach(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || d.mayReach(netip.IPv6Loopback())
	if t.addr.IsValid() && !d.mayReach(t.addr) || localName && !loopback {
		return nil, refuseURL("%s is a private, loopback or reserved address, where callbacks are not sent; %s", t.host,
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

// mayReach reports whether callbacks may be sent to an address.
func (d *dialer) mayReach(a netip.Addr) bool {
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
