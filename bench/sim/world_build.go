package sim

import (
	"fmt"
	"math/bits"
	"net/netip"
)

// builder makes one World; it is done with when NewWorld returns.
type builder struct {
	*World
	named     int            // company names given out
	addressed int            // addresses given out
	operators map[string]int // cluster of a persona's operator
	drawn     map[addressKey]netip.Addr
	slotted   []uint32            // World.slots, growing
	homes     map[string][]uint32 // persona name -> its company domains
}

// NewWorld makes the population of c. The network needs room for a few hundred
// hosts: 4,096 addresses are always enough.
func NewWorld(c Config) *World {
	w := &World{
		config: c.withDefaults(), personas: personas(c.Punishers),
		byName: map[string]*Domain{}, byAddr: map[netip.Addr]*Host{},
		names: map[string]record{}, above: map[string]struct{}{},
	}
	b := &builder{World: w, operators: map[string]int{}, drawn: map[addressKey]netip.Addr{}, homes: map[string][]uint32{}}
	b.settle()
	w.index(b.slotted)
	return w
}

// settle gives every persona its domains, and the special domains theirs.
func (b *builder) settle() {
	seen := map[string]int{}
	for _, p := range b.personas {
		b.populate(p, b.share(p, seen[p.Provider]))
		seen[p.Provider]++
	}
	b.special(disposableDomains, b.persona("catch-all", PlainDNS), rowsDisposable, domainFlags{disposable: true})
	b.special(typosMissing, b.persona("nxdomain", NXDomain), rowsTypo*6/10, domainFlags{typo: true, public: true})
	b.special(typosNullMX, b.persona("null-mx", NullMX), rowsTypo/10, domainFlags{typo: true, public: true})
	b.special(typosLive, b.persona("postfix", PlainDNS), rowsTypo*3/10, domainFlags{typo: true, public: true})
	var aLabels []string
	for _, pair := range internationalDomains {
		aLabels = append(aLabels, pair[1])
	}
	b.special(aLabels, b.persona("postfix", PlainDNS), rowsInternation, domainFlags{})
	b.fillUp()
	gateways := [...]*Persona{b.persona("proofpoint", PlainDNS), b.persona("barracuda", PlainDNS)}
	for i := range b.config.Tenants {
		b.add(fmt.Sprintf("tenant-%d.example", i), gateways[i%len(gateways)], "", domainFlags{})
	}
	plain, machines := b.persona("postfix", PlainDNS), min(b.config.Homes/domainsOfAHoster+1, maxHomeMachines)
	for i := range b.config.Homes {
		b.add(homeName(i), plain, fmt.Sprintf("homes-%d.example", i%machines), domainFlags{ownHosts: true})
	}
}

// maxHomeMachines bounds the machines of Config.Homes: each is a listener.
const maxHomeMachines = 8000

// homeName is the i-th domain of Config.Homes.
func homeName(i int) string { return fmt.Sprintf("home-%d.example", i) }

// share is how many rows and which public domains p has; nth counts the
// personas of its provider before it.
func (b *builder) share(p *Persona, nth int) people {
	if p.Slow {
		return people{rows: rowsRarePersona}
	}
	if provided, known := byProvider[p.Provider]; known {
		others := b.personasOf(p.Provider) - 1
		if nth > 0 {
			return people{rows: provided.rows / 5 / others}
		}
		if others > 0 {
			provided.rows = provided.rows * 4 / 5
		}
		return provided
	}
	if named, known := byName[p.Name]; known {
		return named
	}
	return people{rows: rowsOddPersona}
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
func (b *builder) persona(name string, odd Oddity) *Persona {
	var like *Persona
	for _, p := range b.personas {
		if p.Name == name {
			return p
		}
		if like == nil && p.Oddity == odd {
			like = p
		}
	}
	return like
}

// populate makes p's domains and gives them their rows.
func (b *builder) populate(p *Persona, of people) {
	public := b.addAll(unique(of.domains), p, domainFlags{public: true})
	rows := of.rows * of.consumers / 100
	for i := range rows {
		name := of.domains[i%len(of.domains)]
		b.slotted = append(b.slotted, public[name])
	}
	rest := of.rows - rows
	if rest == 0 {
		return
	}
	homes := b.companies(p, min(max(rest/rowsOfADomain, domainsAtLeast), domainsAtMost))
	b.homes[p.Name] = homes
	b.spread(homes, rest)
}

// companies makes n company domains of p, hosted by operators of a dozen
// domains each, unless p forms its host names from the domain.
func (b *builder) companies(p *Persona, n int) []uint32 {
	var made []uint32
	operator := ""
	for i := range n {
		if i%domainsOfAHoster == 0 {
			operator = fmt.Sprintf("%s-%d.example", p.Name, i/domainsOfAHoster+1)
		}
		made = append(made, b.add(b.company(), p, operator, domainFlags{}))
	}
	return made
}

// spread gives rows to domains, more to the first than to the last.
func (b *builder) spread(domains []uint32, rows int) {
	for i := range rows {
		h := mix(b.config.Seed ^ uint64(len(b.slotted))<<20 ^ uint64(i))
		n := uint64(len(domains))
		at, _ := bits.Mul64(n, h)
		if again, _ := bits.Mul64(n, mix(h)); again < at {
			at = again
		}
		b.slotted = append(b.slotted, domains[at])
	}
}

// special adds domains that have a name of their own.
func (b *builder) special(names []string, p *Persona, rows int, flags domainFlags) {
	at := b.addAll(names, p, flags)
	for i := range rows {
		b.slotted = append(b.slotted, at[names[i%len(names)]])
	}
}

// fillUp gives the rows that are left to the plainest mail software.
func (b *builder) fillUp() {
	if len(b.slotted) > rowsInTable {
		panic("BUG: the population has more than all rows")
	}
	b.spread(b.homes[b.persona("postfix", PlainDNS).Name], rowsInTable-len(b.slotted))
}

func (b *builder) addAll(names []string, p *Persona, flags domainFlags) map[string]uint32 {
	at := map[string]uint32{}
	for _, name := range names {
		at[name] = b.add(name, p, p.Name+"-public.example", flags)
	}
	return at
}

// company invents the next company's domain. 1103 has no factor in common with
// the 2,500 pairs of words, so that neighbours differ.
func (b *builder) company() string {
	pairs := len(companyFirst) * len(companySecond)
	i := (b.named*1103 + int(b.config.Seed%uint64(pairs))) % pairs
	round := b.named / pairs
	b.named++
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
