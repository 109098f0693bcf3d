package prober

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/xxh3"

	"probity/engine"
	"probity/engine/smtp"
)

// Source is an egress source of this node: where its connections come from and how it greets.
type Source struct {
	Local  netip.Addr // source address; the zero value leaves it to the system, for IPv4 targets only
	Public netip.Addr // what receivers see, behind NAT
	EHLO   string     // FQDN of that address
	SOCKS5 smtp.Proxy // connects for it; the zero value: the one of Config
}

// proxy is what connects for the source.
func (i Source) proxy(fallback smtp.Proxy) smtp.Proxy {
	if i.SOCKS5.Addr != "" {
		return i.SOCKS5
	}
	return fallback
}

// SenderIdentity is what a reply to this source may quote of us.
func (i Source) SenderIdentity(mailFrom string) engine.SenderIdentity {
	sender := engine.SenderIdentity{MailFrom: mailFrom, EHLO: i.EHLO}
	for _, a := range [...]netip.Addr{i.Local, i.Public} {
		if a.IsValid() {
			sender.Sources = append(sender.Sources, a.String())
		}
	}
	return sender
}

// Name identifies the source in the cluster: the address that receivers see, else the EHLO name.
func (i Source) Name() string {
	switch {
	case i.Public.IsValid():
		return i.Public.String()
	case i.Local.IsValid():
		return i.Local.String()
	}
	return i.EHLO
}

// reachesIPv6 reports a source of IPv6 connections.
func (i Source) reachesIPv6() bool { return i.Local.Is6() && !i.Local.Is4In6() }

// source is a source at work.
type source struct {
	Source
	name      string
	sender    engine.SenderIdentity // what replies may quote of us
	firstUsed time.Time             // when it was first used, while it is warming up; zero for a source that is warm

	Health health // whether it can connect

	mu                  sync.Mutex           // guards what follows; health's is taken under it
	quarantinedUntil    time.Time            // quarantined everywhere until then
	trialAt             time.Time            // while it is quarantined, when one connection may be tried
	providerQuarantines map[string]time.Time // wide provider -> quarantined there until then
	blocklistReports    map[string]time.Time // route -> end of its report for that
	lastBlocked         delistingTrial       // the last target that was not asked because it is quarantined everywhere
	blocklistedBy       []delistingTrial     // targets that refused it as blocklisted
	trialRoute          string               // the route of the delisting trial that is to be its next trial connection
	watched             bool                 // a goroutine makes its delisting trials
}

const (
	reportsToQuarantine = 3   // routes whose blocklist refusals quarantine a source everywhere
	maxBlocklistReports = 100 // routes whose reports are remembered
)

// sourceSet are the sources of this node. Immutable.
type sourceSet struct {
	list []*source // those that take queues
	ipv6 *source   // the one that reaches hosts with IPv6 only; nil for none
}

func newSourceSet(ids []Source, mailFrom string) (sourceSet, error) {
	var all sourceSet
	seen := map[string]bool{}
	for _, id := range ids {
		src := &source{Source: id, name: id.Name(), sender: id.SenderIdentity(mailFrom), blocklistReports: map[string]time.Time{}}
		if seen[src.name] {
			return all, fmt.Errorf("prober: two egress identities are %q: they would share its budgets twice", src.name)
		}
		seen[src.name] = true
		if src.reachesIPv6() && all.ipv6 == nil {
			all.ipv6 = src
		}
		all.list = append(all.list, src)
	}
	if len(all.list) == 0 {
		return all, errors.New("prober: no egress identity")
	}
	// A ready queue is chosen before its hosts' addresses are known: sources of IPv4 take them, where there are any.
	if ipv4 := slices.DeleteFunc(slices.Clone(all.list), func(src *source) bool { return src.reachesIPv6() }); len(ipv4) > 0 {
		all.list = ipv4
	}
	return all, nil
}

// choose finds the source that asks for an address: the pinned one if it is ours, else by rendezvous hashing of the route; at
// wide providers of the domain, or of the address at their consumer domains, among the sources that are not quarantined there;
// at providers with tenants of the domain, among as many sources as may ask there. It is nil if every candidate is quarantined.
func (a *sourceSet) choose(route *engine.Route, addr engine.Address, pinned string, now time.Time) *source {
	if len(a.list) == 1 {
		return a.list[0].unlessQuarantined(route, addr, now)
	}
	p, key := route.Provider, route.Key
	wide := p.Kind == engine.KindWide
	if p.Shared() {
		key = addr.Domain()
	}
	if wide && slices.Contains(p.ByAddress, key) {
		key = addr.Folded()
	}
	var best, open *source
	var weight, availableWeight uint64
	if i := slices.IndexFunc(a.list, func(src *source) bool { return src.name == pinned }); i >= 0 {
		return a.list[i].unlessQuarantined(route, addr, now)
	}
	for _, src := range a.eligible(p) {
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
func (src *source) weight(key string) uint64 {
	return xxh3.HashStringSeed(key, xxh3.HashString(src.name))
}

// eligible lists the sources that may ask a provider.
func (a *sourceSet) eligible(p *engine.Provider) []*source {
	n := p.FleetSources
	if n == 0 || n >= len(a.list) {
		return a.list
	}
	ranked := slices.Clone(a.list)
	slices.SortFunc(ranked, func(a, b *source) int { return cmp.Compare(b.weight(p.ID), a.weight(p.ID)) })
	return ranked[:n]
}

func (src *source) unlessQuarantined(route *engine.Route, addr engine.Address, now time.Time) *source {
	if src.awaitingTrial(now) {
		src.recordBlocked(route, addr.Domain(), now)
		return nil
	}
	return src
}

// addBlocklistReport records that a route wants the source to be quarantined everywhere; true when enough of them do. The first
// trial connection is then due after `again`.
func (src *source) addBlocklistReport(route string, until time.Time, again time.Duration, now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	for r, end := range src.blocklistReports {
		if !now.Before(end) {
			delete(src.blocklistReports, r)
		}
	}
	if len(src.blocklistReports) < maxBlocklistReports {
		src.blocklistReports[route] = until
	}
	if len(src.blocklistReports) < reportsToQuarantine || !until.After(src.quarantinedUntil) {
		return false
	}
	src.quarantinedUntil, src.trialAt = until, now.Add(again)
	return true
}

// hasHostName reports a source that may ask public targets: it has a host name or an address literal to greet with.
func (src *source) hasHostName() bool {
	return strings.Contains(src.EHLO, ".") || strings.HasPrefix(src.EHLO, "[")
}
