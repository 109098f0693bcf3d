package world

import (
	"net/netip"
	"strings"

	"probity/bench/sim/persona"
)

// World is the population of one simulated internet. It is read-only once made,
// and so safe for concurrent use.
type World struct {
	config       Config
	personas     []*persona.Persona
	domains      []Domain
	byName       map[string]*Domain
	byAddr       map[netip.Addr]*Host
	names        map[string]DNSRecords // the DNS: every name that has a record
	nonTerminals map[string]struct{}   // names without records that have names below them (RFC 8020)
	rowDomains   []uint32              // 100,000 list rows -> index in domains
	hostile      []uint32              // indexes in domains of those of Config.Hostile
	outcomes     map[*persona.Persona]*[persona.MailboxStates][]persona.Outcome
}

// domainFlags are properties of a domain that clients cannot see.
type domainFlags struct {
	public     bool // anyone may have a mailbox there; no role accounts
	disposable bool
	typo       bool // looks like a major domain
	foldsDots  bool // dots and +tags of the local part are ignored
	noDots     bool // its local parts have no dots
	ownHosts   bool // its hosts are named after it
}

// index makes the lookup maps after all domains are made.
func (w *World) index(rowDomains []uint32) {
	w.rowDomains = rowDomains
	w.outcomes = map[*persona.Persona]*[persona.MailboxStates][]persona.Outcome{}
	for i := range w.domains {
		w.byName[w.domains[i].Name] = &w.domains[i]
	}
	for _, pair := range internationalDomains {
		w.byName[pair[0]] = w.byName[pair[1]]
	}
	for name := range w.names {
		for at := strings.IndexByte(name, '.'); at >= 0; at = strings.IndexByte(name, '.') {
			name = name[at+1:]
			w.nonTerminals[name] = struct{}{}
		}
	}
	for _, p := range w.personas {
		w.outcomes[p] = outcomesByMailbox(p)
	}
}

// Config is the configuration of the world with defaults filled in.
func (w *World) Config() Config { return w.config }

// Personas lists the receivers of this world.
func (w *World) Personas() []*persona.Persona { return w.personas }

// Domains lists every mail domain, including those that do not exist in the DNS
// by design. The slice must not be changed.
func (w *World) Domains() []Domain { return w.domains }

// Domain finds a mail domain by its A-label or U-label, in any case.
func (w *World) Domain(name string) (Domain, bool) {
	d, ok := w.byName[strings.ToLower(name)]
	if !ok {
		return Domain{}, false
	}
	return *d, true
}

// DomainOf is Domain for lower-case bytes, without allocation; nil if there is none.
func (w *World) DomainOf(name []byte) *Domain { return w.byName[string(name)] }

// HostAt finds the host behind an address.
func (w *World) HostAt(addr netip.Addr) (Host, bool) {
	h, ok := w.byAddr[addr.Unmap()]
	if !ok {
		return Host{}, false
	}
	return *h, true
}

// Hosts lists every machine, dead ones included, in no particular order.
func (w *World) Hosts() []Host {
	all := make([]Host, 0, len(w.byAddr))
	for _, h := range w.byAddr {
		all = append(all, *h)
	}
	return all
}
