package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"

	"probity/engine/smtp"
)

// dial opens connections to mail servers or, where there is one, to the proxy that does.
func (f *probingFlags) dial(log *slog.Logger) smtp.DialFunc {
	if f.SOCKS5 == "" {
		return dialFrom
	}
	return (&proxyWatch{proxy: f.SOCKS5, dial: dialFrom, log: log}).connect
}

// proxyWatch says when the proxy cannot be reached: to those who wait, it looks like mail servers that do not answer.
type proxyWatch struct {
	proxy string
	dial  smtp.DialFunc
	log   *slog.Logger
	gone  atomic.Bool
}

// connect speaks up once when the proxy goes, and once when it is back.
func (w *proxyWatch) connect(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	conn, err := w.dial(ctx, local, network, address)
	switch {
	case address != w.proxy || errors.Is(ctx.Err(), context.Canceled):
	case err != nil && w.gone.CompareAndSwap(false, true):
		w.log.Error("the proxy of --socks5 is not reachable: until it is, no mail server is asked; start it, or name another", "socks5", w.proxy, "error", err)
	case err == nil && w.gone.CompareAndSwap(true, false):
		w.log.Info("the proxy of --socks5 is reachable again", "socks5", w.proxy)
	}
	return conn, err
}
