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

// Identity is one face of this node: where its connections come from and how it greets.
type Identity struct {
	Local  netip.Addr // source address; the zero value leaves it to the system, for IPv4 targets only
	Public netip.Addr // what receivers see, where a translator stands between
	EHLO   string     // FQDN of that address
	SOCKS5 smtp.Proxy // connects for it; the zero value: the one of Config
}

// proxy is what connects for the identity.
func (i Identity) proxy(usual smtp.Proxy) smtp.Proxy {
	if i.SOCKS5.Addr != "" {
		return i.SOCKS5
	}
	return usual
}

// Asker is what a reply to this identity may quote of us.
func (i Identity) Asker(mailFrom string) engine.Asker {
	asker := engine.Asker{MailFrom: mailFrom, EHLO: i.EHLO}
	for _, a := range [...]netip.Addr{i.Local, i.Public} {
		if a.IsValid() {
			asker.Sources = append(asker.Sources, a.String())
		}
	}
	return asker
}

// Name identifies the identity in the cluster: the address that receivers see, else the EHLO name.
func (i Identity) Name() string {
	switch {
	case i.Public.IsValid():
		return i.Public.String()
	case i.Local.IsValid():
		return i.Local.String()
	}
	return i.EHLO
}

// six reports a source of IPv6 connections.
func (i Identity) six() bool { return i.Local.Is6() && !i.Local.Is4In6() }

// egress is an identity at work.
type egress struct {
	Identity
	name  string
	asker engine.Asker // what replies may quote of us
	since time.Time    // when it was first used, while that still matters: the zero value is a source that is warm

	health health

	mu      sync.Mutex           // guards what follows; health's is taken under it
	rests   time.Time            // quarantined everywhere until then
	canary  time.Time            // while it rests, when one connection may be tried
	restsAt map[string]time.Time // wide provider -> quarantined there until then
	votes   map[string]time.Time // route -> end of its vote for that
	miss    errand               // who was to be asked last, while it rests everywhere
	named   []errand             // who refused it as listed
	sent    string               // the route of the errand that is to be its next canary
	tended  bool                 // somebody sends its canaries
}

const (
	votesToRest = 3   // routes whose blocklist refusals rest a source everywhere
	maxVotes    = 100 // routes whose votes are remembered
)

// egresses are the identities of this node. Immutable.
type egresses struct {
	list []*egress // those that take lanes
	six  *egress   // the one that reaches hosts with IPv6 only; nil for none
}

func newEgresses(ids []Identity, mailFrom string) (egresses, error) {
	var all egresses
	seen := map[string]bool{}
	for _, id := range ids {
		e := &egress{Identity: id, name: id.Name(), asker: id.Asker(mailFrom), votes: map[string]time.Time{}}
		if seen[e.name] {
			return all, fmt.Errorf("prober: two egress identities are %q: they would share its budgets twice", e.name)
		}
		seen[e.name] = true
		if e.six() && all.six == nil {
			all.six = e
		}
		all.list = append(all.list, e)
	}
	if len(all.list) == 0 {
		return all, errors.New("prober: no egress identity")
	}
	// A lane is chosen before its hosts' addresses are known: sources of IPv4 take them, where there are any.
	if four := slices.DeleteFunc(slices.Clone(all.list), func(e *egress) bool { return e.six() }); len(four) > 0 {
		all.list = four
	}
	return all, nil
}

// choose finds the identity that asks for an address: the pinned one if it is ours, else by rendezvous hashing of the route, at
// wide providers of the domain, or of the address at their consumer domains, among those that do not rest there, and at providers
// with tenants of the domain, among as many as may ask there. Nil when every candidate rests.
func (a *egresses) choose(route *engine.Route, addr engine.Address, pinned string, now time.Time) *egress {
	if len(a.list) == 1 {
		return a.list[0].unlessResting(route, addr, now)
	}
	p, key := route.Provider, route.Key
	wide := p.Kind == engine.KindWide
	if p.Shared() {
		key = addr.Domain()
	}
	if wide && slices.Contains(p.ByAddress, key) {
		key = addr.Folded()
	}
	var best, open *egress
	var weight, openWeight uint64
	if i := slices.IndexFunc(a.list, func(e *egress) bool { return e.name == pinned }); i >= 0 {
		return a.list[i].unlessResting(route, addr, now)
	}
	for _, e := range a.among(p) {
		w := e.weight(key)
		if best == nil || w > weight {
			best, weight = e, w
		}
		if wide && (open == nil || w > openWeight) && e.open(p.ID, now) {
			open, openWeight = e, w
		}
	}
	if open != nil {
		return open
	}
	return best.unlessResting(route, addr, now)
}

// weight is the rank of an identity for a key: the highest owns it.
func (e *egress) weight(key string) uint64 { return xxh3.HashStringSeed(key, xxh3.HashString(e.name)) }

// among lists the identities that may ask a provider.
func (a *egresses) among(p *engine.Provider) []*egress {
	n := p.FleetSources
	if n == 0 || n >= len(a.list) {
		return a.list
	}
	ranked := slices.Clone(a.list)
	slices.SortFunc(ranked, func(a, b *egress) int { return cmp.Compare(b.weight(p.ID), a.weight(p.ID)) })
	return ranked[:n]
}

func (e *egress) unlessResting(route *engine.Route, addr engine.Address, now time.Time) *egress {
	if e.resting(now) {
		e.missed(route, addr.Domain(), now)
		return nil
	}
	return e
}

// vote records that a route wants the source to rest everywhere; true when enough of them do. It is tried again after a while.
func (e *egress) vote(route string, until time.Time, again time.Duration, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r, end := range e.votes {
		if !now.Before(end) {
			delete(e.votes, r)
		}
	}
	if len(e.votes) < maxVotes {
		e.votes[route] = until
	}
	if len(e.votes) < votesToRest || !until.After(e.rests) {
		return false
	}
	e.rests, e.canary = until, now.Add(again)
	return true
}

// complete reports an identity with which public targets may be asked: a host name to greet with.
func (e *egress) complete() bool {
	return strings.Contains(e.EHLO, ".") || strings.HasPrefix(e.EHLO, "[")
}
