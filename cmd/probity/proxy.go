package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"probity/engine/smtp"
	"probity/prober/source"
)

// proxyFlag is --socks5 and egressFlag one --egress, as given. Both may hold a password, which is not shown with the configuration.
// A named type for the list of all --egress would make the parser refuse to repeat the flag.
type (
	proxyFlag  string
	egressFlag string
)

// egressProxyOption precedes the proxy of one source.
const egressProxyOption = ",socks5="

// MarshalText returns the flag without its password.
func (p proxyFlag) MarshalText() ([]byte, error) { return []byte(redactProxy(string(p))), nil }

// String returns the flag without its password.
func (e egressFlag) String() string {
	source, proxy, ok := strings.Cut(string(e), egressProxyOption)
	if !ok {
		return string(e)
	}
	return source + egressProxyOption + redactProxy(proxy)
}

// MarshalText returns the flag without its password.
func (e egressFlag) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

func redactProxy(s string) string {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		return "***" + s[i:]
	}
	return s
}

// dial returns a function that connects to mail servers, or to the proxies if there are any.
func (f *probingFlags) dial(proxy smtp.Proxy, ids []source.Identity, log *slog.Logger) smtp.DialFunc {
	w := &proxyWatch{unreachable: map[string]*atomic.Bool{}, dial: dialFrom, log: log}
	for _, p := range append([]smtp.Proxy{proxy}, proxiesOf(ids)...) {
		if p.Addr != "" {
			w.unreachable[p.Addr] = new(atomic.Bool)
		}
	}
	if len(w.unreachable) == 0 {
		return dialFrom
	}
	return w.connect
}

func proxiesOf(ids []source.Identity) (all []smtp.Proxy) {
	for _, id := range ids {
		all = append(all, id.SOCKS5)
	}
	return all
}

// proxyWatch logs when a proxy cannot be reached: to a user this looks like mail servers that do not answer.
type proxyWatch struct {
	unreachable map[string]*atomic.Bool // by host:port of the proxy
	dial        smtp.DialFunc
	log         *slog.Logger
}

// connect logs once when the proxy becomes unreachable, and once when it is back.
func (w *proxyWatch) connect(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	conn, err := w.dial(ctx, local, network, address)
	gone := w.unreachable[address]
	switch {
	case gone == nil || errors.Is(ctx.Err(), context.Canceled):
	case err != nil && gone.CompareAndSwap(false, true):
		w.log.Error("a SOCKS5 proxy is not reachable: until it is, no mail server is asked from the sources that use it; start it, or name another", "proxy", address, "error", err)
	case err == nil && gone.CompareAndSwap(true, false):
		w.log.Info("a SOCKS5 proxy is reachable again", "proxy", address)
	}
	return conn, err
}
