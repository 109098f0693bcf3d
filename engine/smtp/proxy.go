package smtp

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// Proxy is a SOCKS5 proxy (RFC 1928), with a user and a password if it needs them (RFC 1929). The zero value is none.
// However it is printed, user and password are hidden.
type Proxy struct {
	Addr     string // host:port
	user     string
	password string
}

// maxProxySecret bounds a user or a password, in bytes (RFC 1929 section 2).
const maxProxySecret = 255

// ParseProxy reads [USER:PASSWORD@]HOST:PORT. The first colon ends the user and the last @ the password. An error
// quotes neither.
func ParseProxy(s string) (Proxy, error) {
	var p Proxy
	secret := ""
	p.Addr = s
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		secret, p.Addr = s[:i], s[i+1:]
		var ok bool
		p.user, p.password, ok = strings.Cut(secret, ":")
		if !ok || p.user == "" || p.password == "" {
			return Proxy{}, errors.New("write USER:PASSWORD before the @, and HOST:PORT behind it")
		}
		if max(len(p.user), len(p.password)) > maxProxySecret {
			return Proxy{}, errors.New("user and password have at most 255 bytes each")
		}
	}
	host, digits, err := net.SplitHostPort(p.Addr)
	port, bad := strconv.ParseUint(digits, 10, 16)
	if err != nil || bad != nil || host == "" || port == 0 {
		return Proxy{}, errors.New("write HOST:PORT, e.g. 192.0.2.10:1080, or USER:PASSWORD@HOST:PORT")
	}
	return p, nil
}

// String is the proxy without its secret.
func (p Proxy) String() string {
	if p.user != "" {
		return "***@" + p.Addr
	}
	return p.Addr
}

// GoString hides the secret from %#v too.
func (p Proxy) GoString() string { return strconv.Quote(p.String()) }

// MarshalText is String, for JSON and logs.
func (p Proxy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
