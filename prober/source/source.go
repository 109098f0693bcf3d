package source

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"probity/engine"
	"probity/engine/smtp"
)

// Identity is an egress source of this node: where its connections come from and how it greets.
type Identity struct {
	Local  netip.Addr // source address; the zero value leaves it to the system, for IPv4 targets only
	Public netip.Addr // what receivers see, behind NAT
	EHLO   string     // FQDN of that address
	SOCKS5 smtp.Proxy // connects for it; the zero value: the one of Config
}

// Proxy returns what connects for the source.
func (i Identity) Proxy(fallback smtp.Proxy) smtp.Proxy {
	if i.SOCKS5.Addr != "" {
		return i.SOCKS5
	}
	return fallback
}

// SenderIdentity returns what a reply to this source may quote of us.
func (i Identity) SenderIdentity(mailFrom string) engine.SenderIdentity {
	sender := engine.SenderIdentity{MailFrom: mailFrom, EHLO: i.EHLO}
	for _, a := range [...]netip.Addr{i.Local, i.Public} {
		if a.IsValid() {
			sender.Sources = append(sender.Sources, a.String())
		}
	}
	return sender
}

// Name identifies the source in the cluster: the address that receivers see, else the EHLO name.
func (i Identity) Name() string {
	switch {
	case i.Public.IsValid():
		return i.Public.String()
	case i.Local.IsValid():
		return i.Local.String()
	}
	return i.EHLO
}

// ReachesIPv6 reports whether i is a source of IPv6 connections.
func (i Identity) ReachesIPv6() bool { return i.Local.Is6() && !i.Local.Is4In6() }

// Source is a source at work.
type Source struct {
	Identity
	Name      string                // that of its identity: budgets are stored under it
	Sender    engine.SenderIdentity // what replies may quote of us
	firstUsed time.Time             // when it was first used, while it is warming up; zero for a source that is warm

	breaker // when it may connect; its mutex guards what follows

	providerQuarantines map[string]time.Time // wide provider -> quarantined there until then
	blocklistReports    map[string]time.Time // route -> end of its report for that
}

// Set are the sources of this node. Immutable.
type Set struct {
	List []*Source // those that take queues
	IPv6 *Source   // the one that reaches hosts with IPv6 only; nil for none
}

// New makes the sources of a node, each with a name of its own.
func New(ids []Identity, mailFrom string) (Set, error) {
	var all Set
	seen := map[string]bool{}
	for _, id := range ids {
		src := &Source{Identity: id, Name: id.Name(), Sender: id.SenderIdentity(mailFrom),
			blocklistReports: map[string]time.Time{}}
		if seen[src.Name] {
			return all, fmt.Errorf("prober: two egress identities are %q: they would share its budgets twice", src.Name)
		}
		seen[src.Name] = true
		if src.ReachesIPv6() && all.IPv6 == nil {
			all.IPv6 = src
		}
		all.List = append(all.List, src)
	}
	if len(all.List) == 0 {
		return all, errors.New("prober: no egress identity")
	}
	// A ready queue is chosen before its hosts' addresses are known: sources of IPv4 take them, where there are any.
	if ipv4 := slices.DeleteFunc(slices.Clone(all.List),
		func(src *Source) bool { return src.ReachesIPv6() }); len(ipv4) > 0 {
		all.List = ipv4
	}
	return all, nil
}

// Choose finds the source that asks for an address: the pinned one if it is ours, else by rendezvous hashing of the
// route; at wide providers of the domain, or of the address at their consumer domains, among the sources that are not
// quarantined there; at providers with tenants of the domain, among as many sources as may ask there. It is nil if
// every candidate is quarantined.
func (s *Set) Choose(route *engine.Route, addr engine.Address, pinned string, now time.Time) *Source {
	if len(s.List) == 1 {
		return s.List[0].unlessQuarantined(route, addr, now)
	}
	p, key := route.Provider, route.Key
	wide := p.Kind == engine.KindWide
	if p.Shared() {
		key = addr.Domain()
	}
	if wide && slices.Contains(p.ByAddress, key) {
		key = addr.Folded()
	}
	var best, open *Source
	var weight, availableWeight uint64
	if i := slices.IndexFunc(s.List, func(src *Source) bool { return src.Name == pinned }); i >= 0 {
		return s.List[i].unlessQuarantined(route, addr, now)
	}
	for _, src := range s.eligible(p) {
		w := src.weight(key)
		if best == nil || w > weight {
			best, weight = src, w
		}
		if wide && (open == nil || w > availableWeight) && src.mayProbe(p.ID, now) {
			open, availableWeight = src, w
		}
	}
	if open != nil {
		return open
	}
	return best.unlessQuarantined(route, addr, now)
}

// weight is the rank of a source for a key: the source with the highest owns it.
func (src *Source) weight(key string) uint64 {
	return xxh3.HashStringSeed(key, xxh3.HashString(src.Name))
}

// eligible lists the sources that may ask a provider.
func (s *Set) eligible(p *engine.Provider) []*Source {
	n := p.FleetSources
	if n == 0 || n >= len(s.List) {
		return s.List
	}
	ranked := slices.Clone(s.List)
	slices.SortFunc(ranked, func(a, b *Source) int { return cmp.Compare(b.weight(p.ID), a.weight(p.ID)) })
	return ranked[:n]
}

func (src *Source) unlessQuarantined(route *engine.Route, addr engine.Address, now time.Time) *Source {
	if src.AwaitingTrial(now) {
		src.RecordBlocked(route, addr.Domain(), now)
		return nil
	}
	return src
}

// HasHostName reports whether src may ask public targets: it has a host name or an address literal to greet with.
func (src *Source) HasHostName() bool {
	return strings.Contains(src.EHLO, ".") || strings.HasPrefix(src.EHLO, "[")
}
