package prober

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"probity/engine"
	"probity/engine/smtp"
)

// locate has a group's host looked up, and the group rung then, where that is not known and a connection might be opened. A single
// waits for no look-up that others have asked for, nor for its turn: its session does it then. False when the group may go on.
func (l *lane) locate(g *group, who priority, now time.Time) bool {
	switch {
	case g.finding:
		return who != single
	case !l.shares(g) || !l.outdated(g, now) || l.shut(now) || now.Before(l.opens()):
		return false
	case who == single && l.finders == maxFinders:
		return false
	}
	if n, _ := l.pace.room(&connPace{}, who, now); n == 0 {
		return false
	}
	return l.seek(g)
}

// outdated reports a group whose host may be elsewhere by now.
func (l *lane) outdated(g *group, now time.Time) bool { return now.Sub(g.found) >= siteLife }

// seek has a group's host looked up, at once or when others have been. False when the prober stops.
func (l *lane) seek(g *group) bool {
	if l.finders < maxFinders {
		if !l.prober.spawn(l.findHosts) {
			return false
		}
		l.finders++
	}
	g.finding = true
	l.sought.push(g)
	return true
}

// findHosts looks hosts up until none is sought.
func (l *lane) findHosts(soft, _ context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.sought.n > 0 {
		g := l.sought.pop()
		l.mu.Unlock()
		addrs, _ := l.addresses(soft, g.host)
		l.mu.Lock()
		now := time.Now()
		g.finding, g.found = false, now
		if l.groups[g.key] == g {
			l.settleAt(g, l.nearest(addrs))
			l.ringAll(g)
			l.kick(now)
		}
	}
	if l.finders--; l.finders == 0 {
		l.kick(time.Now()) // idle sessions that expected calls make room now
	}
}

// nearest is at which of its addresses a host will be asked: where somebody has been answered already, else the first. The zero
// Addr where it has none.
func (l *lane) nearest(addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if t := l.sites[a]; t != nil && t.healthy > 0 {
			return a
		}
	}
	if len(addrs) > 0 {
		return addrs[0]
	}
	return netip.Addr{}
}

// addresses are those of a host that may and can be connected to from here, in DNS's order. The event says why there are none.
func (l *lane) addresses(ctx context.Context, host string) ([]netip.Addr, engine.Event) {
	p := l.prober
	addrs, fact := p.cfg.Resolver.Addrs(ctx, host, p.egress.six != nil)
	switch fact {
	case engine.FactServFail, engine.FactDNSTimeout, engine.FactUnasked:
		return nil, engine.EventHostServFail
	}
	event := engine.EventNoAddress
	may := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		class := smtp.ClassOf(a)
		switch {
		case class == smtp.Bogus, class == smtp.Private && !p.cfg.AllowPrivate:
			if event == engine.EventNoAddress {
				event = engine.EventRefusedHost
			}
		case l.source(a.Unmap()) != nil:
			may = append(may, a.Unmap())
		default:
			event = engine.EventNoEgress
		}
	}
	if len(may) > 0 {
		event = engine.EventReply
	}
	return may, event
}

// source is the identity of this node that may connect to an address for the lane; nil where none can.
func (l *lane) source(a netip.Addr) *egress {
	if a.Is4() != l.egress.six() {
		return l.egress
	}
	if six := l.prober.egress.six; a.Is6() && six != nil {
		return six
	}
	return nil
}

// find chooses the address to connect to: where the group is to be asked, if that may and can be still, else the first. The event
// says why there is none.
func (s *session) find(ctx context.Context) (netip.Addr, engine.Event) {
	l := s.lane
	addrs, event := l.addresses(ctx, s.group.host)
	l.mu.Lock()
	defer l.mu.Unlock()
	a, was, now := l.nearest(addrs), s.site, time.Now()
	if was != nil && slices.Contains(addrs, was.addr) {
		a = was.addr
	}
	if l.shares(s.group) {
		s.group.found = now
		l.settleAt(s.group, a)
	}
	if len(addrs) == 0 {
		return netip.Addr{}, event
	}
	s.from = l.source(a)
	if l.arrive(s, a); was != nil && s.site != was {
		l.kick(now) // who called there
	}
	return a, engine.EventReply
}
