package nodeflags

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"

	"probity/engine"
	"probity/engine/dns"
	"probity/engine/smtp"
	"probity/internal/console"
	"probity/prober"
	"probity/prober/source"
)

// Resolver makes the DNS client of the flags, on the sockets of this machine.
func (p *Probing) Resolver(table *engine.Table) (*dns.Resolver, error) {
	servers, err := p.servers()
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	var listen net.ListenConfig
	return dns.New(dns.Config{Servers: servers, Dial: dialer.DialContext, ListenPacket: listen.ListenPacket}, table)
}

// DialFrom connects from a local address, or from one that the system chooses.
func DialFrom(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	var d net.Dialer
	if local.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0))
	}
	return d.DialContext(ctx, network, address)
}

// Identities are the sources of --egress. Without any, the system chooses the address and the EHLO name is the host
// name.
func (p *Probing) Identities() ([]source.Identity, error) {
	if len(p.Egress) == 0 {
		return []source.Identity{{EHLO: console.HostName()}}, nil
	}
	var ids []source.Identity
	for _, s := range p.Egress {
		id, err := s.Parse()
		if err != nil {
			return nil, err
		}
		if err := checkBindable(id.Local); err != nil {
			return nil, fmt.Errorf("%w: --egress %s: %v; give an address of this machine, and what receivers see behind a slash", console.ErrUsage, s, err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// checkBindable checks that this machine can bind an address.
func checkBindable(local netip.Addr) error {
	if !local.IsValid() {
		return nil
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		return err
	}
	return l.Close()
}

// Files reserved for everything that is not an SMTP session, and the default of the most sessions.
const (
	reservedFiles      = 512
	defaultMaxSessions = 4000
)

// sessions returns how many SMTP sessions may be open at one time: as the flag says, but never more than the file limit
// allows.
func (p *Probing) sessions() (int, error) {
	limit, _, err := openFiles()
	if err != nil {
		return 0, fmt.Errorf("file limit: %w", err)
	}
	room := max(16, int(min(limit, 1<<20))-reservedFiles)
	if int(p.Concurrency) > room {
		return 0, fmt.Errorf("%w: --concurrency %d needs more open files than the limit of %d; raise it with ulimit -n",
			console.ErrUsage, p.Concurrency, limit)
	}
	if p.Concurrency > 0 {
		return int(p.Concurrency), nil
	}
	return min(room, defaultMaxSessions), nil
}

// ProberConfig is the configuration that the flags give a prober on the sockets of this machine.
func (p *Probing) ProberConfig(table *engine.Table, log *slog.Logger) (prober.Config, error) {
	ids, err := p.Identities()
	if err != nil {
		return prober.Config{}, err
	}
	proxy, err := p.proxy()
	if err != nil {
		return prober.Config{}, err
	}
	sessions, err := p.sessions()
	return prober.Config{Table: table, Dial: p.dial(proxy, ids, log), Sources: ids, MailFrom: p.MailFrom, SOCKS5: proxy,
		Port:         p.SMTPPort,
		AllowPrivate: p.AllowPrivateTargets, SkipWarmUp: p.Warm, MaxSessions: sessions}, err
}

// dial returns a function that connects to mail servers, or to the proxies if there are any.
func (p *Probing) dial(proxy smtp.Proxy, ids []source.Identity, log *slog.Logger) smtp.DialFunc {
	w := &proxyWatch{unreachable: map[string]*atomic.Bool{}, dial: DialFrom, log: log}
	if proxy.Addr != "" {
		w.unreachable[proxy.Addr] = new(atomic.Bool)
	}
	for _, id := range ids {
		if id.SOCKS5.Addr != "" {
			w.unreachable[id.SOCKS5.Addr] = new(atomic.Bool)
		}
	}
	if len(w.unreachable) == 0 {
		return DialFrom
	}
	return w.connect
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
