package httpd

import (
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// maxHops bounds the entries of X-Forwarded-For that are read.
const maxHops = 32

func isTrusted(proxies []netip.Prefix, a netip.Addr) bool {
	for _, p := range proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// clientAddr is the address of a request's client. A trusted proxy is believed only about the hop before it: the list
// is read from its end, where our own proxies write, to the first address that is not one of them. The client may have
// written anything before that.
func clientAddr(peer netip.Addr, forwarded []string, proxies []netip.Prefix) netip.Addr {
	at := peer.Unmap().WithZone("")
	if !isTrusted(proxies, at) {
		return at
	}
	hops := 0
	for i := len(forwarded) - 1; i >= 0; i-- {
		entries := strings.Split(forwarded[i], ",")
		for j := len(entries) - 1; j >= 0; j-- {
			hop, err := parseHop(strings.TrimSpace(entries[j]))
			hops++
			if err != nil || hops > maxHops {
				return at
			}
			at = hop
			if !isTrusted(proxies, at) {
				return at
			}
		}
	}
	return at
}

// parseHop reads an address as proxies write it: bare, in brackets, or with a port.
func parseHop(s string) (netip.Addr, error) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), nil
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return a.Unmap().WithZone(""), err
}

// ClientIP is the client address that a request counts for.
func (c *Call) ClientIP() netip.Addr {
	var forwarded []string
	for _, v := range c.Ctx.Request.Header.PeekAll(fasthttp.HeaderXForwardedFor) {
		forwarded = append(forwarded, string(v))
	}
	return clientAddr(addrOf(c.Ctx.RemoteAddr()), forwarded, c.server.cfg.TrustedProxies)
}
