package sim

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"probity/bench/sim/dnsd"
	"probity/bench/sim/referee"
	"probity/bench/sim/smtpd"
	"probity/bench/sim/world"
)

// Network is where a Server listens: loopback, private addresses, or memory.
type Network interface {
	Listen(netip.AddrPort) (net.Listener, error)
	ListenPacket(netip.AddrPort) (net.PacketConn, error)
}

// Server is a running simulated internet.
type Server struct {
	World   *world.World
	Referee *referee.Referee
	DNS     netip.AddrPort // where the name server listens
	HTTP    netip.AddrPort // where the report is; zero: nowhere
	// SMTPPort is the port of all hosts, also if the Config left it to the system.
	SMTPPort uint16

	network Network
	stop    context.CancelFunc
	done    sync.WaitGroup
	smtp    *smtpd.Server

	mu     sync.Mutex // guards failed
	failed error
}

// Start makes the world of c and listens on n: one listener for each living
// host, all on one port, and the name server. It serves until ctx ends or Close
// is called. Port 0 in c.DNS or c.HTTP, and AnyPort, select a free port: see
// SMTPPort, DNS and HTTP of the Server.
func Start(ctx context.Context, c world.Config, n Network) (*Server, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	w := world.New(c)
	s := &Server{World: w, Referee: referee.New(c.Speedup), network: n}
	if port := w.Config().SMTPPort; port != world.AnyPort {
		s.SMTPPort = uint16(port)
	}
	var err error
	if s.smtp, err = smtpd.New(w, s.Referee); err != nil {
		return nil, fmt.Errorf("smtp: %w", err)
	}
	ctx, s.stop = context.WithCancel(ctx)
	for _, begin := range []func(context.Context) error{s.startHosts, s.startDNS, s.startHTTP} {
		if err := begin(ctx); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Blocklist makes a provider refuse a source with its own text until Unblock. If provider is empty, every receiver
// refuses it with the text of a public blocklist.
func (s *Server) Blocklist(source netip.Addr, provider string) { s.smtp.Blocklist(source, provider) }

// Unblock removes a source from all blocklists.
func (s *Server) Unblock(source netip.Addr) { s.smtp.Unblock(source) }

// Close ends every listener and connection and waits for them. It returns the
// error that ended the server early, if any.
func (s *Server) Close() error {
	s.stop()
	return s.Wait()
}

// Wait returns when the server has ended.
func (s *Server) Wait() error {
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// fail records the first failure and ends the server.
func (s *Server) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	if s.failed == nil {
		s.failed = err
	}
	s.mu.Unlock()
	s.stop()
}

// startHosts listens for every living host. On a machine without IPv6 the IPv6
// hosts are unreachable, as from many real networks.
func (s *Server) startHosts(ctx context.Context) error {
	for _, h := range s.World.Hosts() {
		if h.Role == world.Dead {
			continue
		}
		for _, addr := range h.Addrs {
			l, err := s.listen(addr)
			if err != nil && addr.Is6() {
				continue
			}
			if err != nil {
				return fmt.Errorf("smtp %s: %w", h.Name, err)
			}
			s.done.Go(func() { s.fail(s.smtp.Serve(ctx, l)) })
		}
	}
	return nil
}

// listen opens the SMTP port at addr. If the port is free to choose, the first call chooses it.
func (s *Server) listen(addr netip.Addr) (net.Listener, error) {
	l, err := s.network.Listen(netip.AddrPortFrom(addr, s.SMTPPort))
	if err != nil {
		return nil, err
	}
	s.SMTPPort = addrPort(l.Addr()).Port()
	return l, nil
}

// startDNS listens on one port for UDP and TCP.
func (s *Server) startDNS(ctx context.Context) error {
	packets, listener, err := s.listenBoth(s.World.Config().DNS)
	if err != nil {
		return fmt.Errorf("dns: %w", err)
	}
	s.DNS = addrPort(packets.LocalAddr())
	s.done.Go(func() { s.fail(dnsd.New(s.World).Serve(ctx, packets, listener)) })
	return nil
}

// portTries bounds the search for a port that is free for both UDP and TCP.
const portTries = 20

// listenBoth opens a port for UDP and TCP. The system chooses a port that is free for UDP; if its TCP port is in use,
// it tries another one.
func (s *Server) listenBoth(at netip.AddrPort) (packets net.PacketConn, listener net.Listener, err error) {
	for range portTries {
		if packets, err = s.network.ListenPacket(at); err != nil {
			return nil, nil, err
		}
		if listener, err = s.network.Listen(addrPort(packets.LocalAddr())); err == nil {
			return packets, listener, nil
		}
		_ = packets.Close()
		if at.Port() != 0 {
			break
		}
	}
	return nil, nil, err
}

// addrPort converts the address of a listener.
func addrPort(a net.Addr) netip.AddrPort {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		panic("BUG: a listener without address and port: " + a.String())
	}
	return at
}
