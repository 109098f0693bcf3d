package world

import (
	"fmt"
	"math/bits"
	"net/netip"

	"probity/bench/sim/persona"
)

// builder makes one World; it is not used after New.
type builder struct {
	*World
	companyCount   int            // company names used so far
	addressCount   int            // addresses used so far
	operators      map[string]int // cluster of a persona's operator
	addresses      map[addressKey]netip.Addr
	assignedRows   []uint32            // World.rowDomains, growing
	companyDomains map[string][]uint32 // persona name -> its company domains
}

// New makes the population of c. The network needs a few hundred addresses;
// 4,096 are always enough.
func New(c Config) *World {
	personas := persona.All()
	if c.Throttlers {
		personas = append(personas, persona.Throttlers()...)
	}
	w := &World{
		config: c.withDefaults(), personas: personas,
		byName: map[string]*Domain{}, byAddr: map[netip.Addr]*Host{},
		names: map[string]DNSRecords{}, nonTerminals: map[string]struct{}{},
	}
	b := &builder{World: w, operators: map[string]int{}, addresses: map[addressKey]netip.Addr{},
		companyDomains: map[string][]uint32{}}
	b.assignDomains()
	if c.Hostile {
		b.addHostile()
	}
	w.index(b.assignedRows)
	return w
}

// assignDomains makes the domains of every persona, and the special domains.
func (b *builder) assignDomains() {
	seen := map[string]int{}
	for _, p := range b.personas {
		b.populate(p, b.shareOf(p, seen[p.Provider]))
		seen[p.Provider]++
	}
	b.addSpecial(disposableDomains, b.persona("catch-all", persona.PlainDNS), rowsDisposable,
		domainFlags{disposable: true})
	b.addSpecial(typosMissing, b.persona("nxdomain", persona.NXDomain), rowsTypo*6/10,
		domainFlags{typo: true, public: true})
	b.addSpecial(typosNullMX, b.persona("null-mx", persona.NullMX), rowsTypo/10, domainFlags{typo: true, public: true})
	b.addSpecial(typosLive, b.persona("postfix", persona.PlainDNS), rowsTypo*3/10,
		domainFlags{typo: true, public: true})
	var aLabels []string
	for _, pair := range internationalDomains {
		aLabels = append(aLabels, pair[1])
	}
	b.addSpecial(aLabels, b.persona("postfix", persona.PlainDNS), rowsInternational, domainFlags{})
	b.assignRest()
	gateways := [...]*persona.Persona{b.persona("proofpoint", persona.PlainDNS),
		b.persona("barracuda", persona.PlainDNS)}
	for i := range b.config.Tenants {
		b.add(fmt.Sprintf("tenant-%d.example", i), gateways[i%len(gateways)], "", domainFlags{})
	}
	plain, machines := b.persona("postfix", persona.PlainDNS), min(b.config.Homes/domainsPerHoster+1, maxHomeMachines)
	for i := range b.config.Homes {
		b.add(homeName(i), plain, fmt.Sprintf("homes-%d.example", i%machines), domainFlags{ownHosts: true})
	}
}

// addHostile makes the domains of every hostile persona.
func (b *builder) addHostile() {
	for _, p := range persona.Hostile() {
		b.personas = append(b.personas, p)
		for i := range max(p.DomainCount, 1) {
			at := b.add(fmt.Sprintf("%s.site-%d.example", p.Name, i+1), p, p.Name+".example", domainFlags{public: true})
			b.hostile = append(b.hostile, at)
		}
	}
}

// maxHomeMachines bounds the machines of Config.Homes: each is a listener.
const maxHomeMachines = 8000

// homeName is the i-th domain of Config.Homes.
func homeName(i int) string { return fmt.Sprintf("home-%d.example", i) }

// shareOf returns how many rows and which public domains p has; nth counts the
// personas of its provider before it.
func (b *builder) shareOf(p *persona.Persona, nth int) rowShare {
	if p.Slow {
		return rowShare{rows: rowsRarePersona}
	}
	if provided, known := byProvider[p.Provider]; known {
		others := b.personasOf(p.Provider) - 1
		if nth > 0 {
			return rowShare{rows: provided.rows / 5 / others}
		}
		if others > 0 {
			provided.rows = provided.rows * 4 / 5
		}
		return provided
	}
	if named, known := byName[p.Name]; known {
		return named
	}
	return rowShare{rows: rowsOddPersona}
}

func (b *builder) personasOf(provider string) (n int) {
	for _, p := range b.personas {
		if p.Provider == provider {
			n++
		}
	}
	return n
}

// persona finds the persona of that name, else the first with that oddity.
func (b *builder) persona(name string, odd persona.Oddity) *persona.Persona {
	var similar *persona.Persona
	for _, p := range b.personas {
		if p.Name == name {
			return p
		}
		if similar == nil && p.Oddity == odd {
			similar = p
		}
	}
	return similar
}

// populate makes p's domains and assigns their rows.
func (b *builder) populate(p *persona.Persona, of rowShare) {
	public := b.addAll(unique(of.domains), p, domainFlags{public: true})
	rows := of.rows * of.consumerPercent / 100
	for i := range rows {
		name := of.domains[i%len(of.domains)]
		b.assignedRows = append(b.assignedRows, public[name])
	}
	rest := of.rows - rows
	if rest == 0 {
		return
	}
	mailDomains := b.addCompanies(p, min(max(rest/rowsPerDomain, minDomains), maxDomains))
	b.companyDomains[p.Name] = mailDomains
	b.assignRows(mailDomains, rest)
}

// addCompanies makes n company domains of p. Each operator hosts a dozen of them,
// unless p forms its host names from the domain.
func (b *builder) addCompanies(p *persona.Persona, n int) []uint32 {
	var made []uint32
	operator := ""
	for i := range n {
		if i%domainsPerHoster == 0 {
			operator = fmt.Sprintf("%s-%d.example", p.Name, i/domainsPerHoster+1)
		}
		made = append(made, b.add(b.companyName(), p, operator, domainFlags{}))
	}
	return made
}

// assignRows assigns rows to domains, more to the first than to the last.
func (b *builder) assignRows(domains []uint32, rows int) {
	for i := range rows {
		h := mixBits(b.config.Seed ^ uint64(len(b.assignedRows))<<20 ^ uint64(i))
		n := uint64(len(domains))
		at, _ := bits.Mul64(n, h)
		if again, _ := bits.Mul64(n, mixBits(h)); again < at {
			at = again
		}
		b.assignedRows = append(b.assignedRows, domains[at])
	}
}

// addSpecial adds domains with given names.
func (b *builder) addSpecial(names []string, p *persona.Persona, rows int, flags domainFlags) {
	at := b.addAll(names, p, flags)
	for i := range rows {
		b.assignedRows = append(b.assignedRows, at[names[i%len(names)]])
	}
}

// assignRest assigns the remaining rows to plain Postfix domains.
func (b *builder) assignRest() {
	if len(b.assignedRows) > rowsInTable {
		panic("BUG: the population has more than all rows")
	}
	b.assignRows(b.companyDomains[b.persona("postfix", persona.PlainDNS).Name], rowsInTable-len(b.assignedRows))
}

func (b *builder) addAll(names []string, p *persona.Persona, flags domainFlags) map[string]uint32 {
	at := map[string]uint32{}
	for _, name := range names {
		at[name] = b.add(name, p, p.Name+"-public.example", flags)
	}
	return at
}

// companyName makes the next company's domain. 1103 has no factor in common with
// the 2,500 pairs of words, so that neighbours differ.
func (b *builder) companyName() string {
	pairs := len(companyFirst) * len(companySecond)
	i := (b.companyCount*1103 + int(b.config.Seed%uint64(pairs))) % pairs
	round := b.companyCount / pairs
	b.companyCount++
	name := companyFirst[i%len(companyFirst)] + "-" + companySecond[i/len(companyFirst)]
	return name + [...]string{"", "-group", "-north", "-union", "-west"}[round] + ".example"
}

func unique(names []string) []string {
	var out []string
	for i, name := range names {
		if i == 0 || names[i-1] != name {
			out = append(out, name)
		}
	}
	return out
}
