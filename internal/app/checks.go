package app

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	"probity/engine"
)

// Invalid addresses, URLs and networks are reported while the command line is read: before anything is opened, and with
// the name of the flag.

// listenFlag is a flag that gives the address of a listener.
type listenFlag struct{ name, address string }

// check refuses an invalid address. Whether this machine has the address shows when it is opened.
func (f listenFlag) check() error {
	if _, _, err := splitAddress(f.address); err != nil {
		return fmt.Errorf("--%s %q: write ADDRESS:PORT, e.g. 127.0.0.1:8080, or :PORT for all addresses", f.name,
			f.address)
	}
	return nil
}

// checkApart refuses an address that another listener of the same process takes.
func (f listenFlag) checkApart(others ...listenFlag) error {
	host, port, err := splitAddress(f.address)
	for _, other := range others {
		otherHost, otherPort, otherErr := splitAddress(other.address)
		// check refuses what is invalid; the system chooses a port for 0
		if err != nil || otherErr != nil || port == 0 || port != otherPort {
			continue
		}
		if host == otherHost || covers(host, otherHost) || covers(otherHost, host) {
			return fmt.Errorf("--%s %s and --%s %s are the same port: give each a port of its own", f.name, f.address,
				other.name, other.address)
		}
	}
	return nil
}

// covers reports whether host is the address of the other, or stands for all addresses of this machine or of IPv4 and
// the other with them. What a name stands for shows when it is opened.
func covers(host, other string) bool {
	if host == "" {
		host = netip.IPv6Unspecified().String()
	}
	all, err := netip.ParseAddr(host)
	one, otherErr := netip.ParseAddr(other)
	all, one = all.Unmap(), one.Unmap()
	return err == nil && otherErr == nil && (all == one || all.IsUnspecified() && (all.Is6() || one.Is4()))
}

// checkHostPort refuses an address that nothing can connect to.
func checkHostPort(flag, at string) error {
	if host, port, err := splitAddress(at); err != nil || host == "" || port == 0 {
		return fmt.Errorf("--%s %q: write HOST:PORT, e.g. 192.0.2.10:7946", flag, at)
	}
	return nil
}

// splitAddress splits HOST:PORT. The port must be a number: service names differ by machine.
func splitAddress(at string) (host string, port uint64, err error) {
	host, digits, err := net.SplitHostPort(at)
	if err == nil {
		port, err = strconv.ParseUint(digits, 10, 16)
	}
	return host, port, err
}

// checkURL refuses a URL that links cannot start with. A path is allowed: a proxy may serve us below one.
func checkURL(flag, text string, schemes ...string) error {
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		for _, s := range schemes {
			if u.Scheme == s {
				return nil
			}
		}
	}
	return fmt.Errorf("--%s %q: write scheme and host without user, query and fragment, e.g. https://verify.example.com", flag, text)
}

// checkOrigin refuses values that no browser sends as Origin (RFC 6454 section 6.2).
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || text != u.Scheme+"://"+u.Host {
		return fmt.Errorf("--cors-origin %q: write scheme and host only, e.g. https://www.example.com; there is no wildcard", text)
	}
	return nil
}

// checkName refuses a name that no authority certifies.
func checkName(flag, name string) error {
	if _, err := engine.ParseDomain(name); err != nil {
		return fmt.Errorf("--%s %q: %w; write a host name, e.g. verify.example.com", flag, name, err)
	}
	return nil
}
