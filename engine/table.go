package engine

import (
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed providers.toml
var shippedTable []byte

// Table is the provider table. It is immutable and shared.
type Table struct {
	Unknown   *Provider       // limits and rules for hosts of no known provider
	Providers []*Provider     // in the order of the file
	Schedule  []time.Duration // waits after each deferred attempt
	Generic   []Rule          // reply rules of every provider, in order
	Speedup   float64         // what Scaled divides by; 1 except for simulated internets

	file       tableFile // what it was read from: the base of an override
	layers     [][]byte  // see Layers
	hash       [8]byte
	suffixes   map[string]*Provider // by MX suffix with its dot, or whole host name
	names      map[string]*Provider // by id, alias, consumer domain
	rules      map[string]*Rule     // by id
	scan       scanner
	plainRules []*Rule // generic rules without phrases, best first
	vetoes     vetoes
}

// Rule is the rule with an id; nil for a rule of the program's own, such as decoy/refused.
func (t *Table) Rule(id string) *Rule { return t.rules[id] }

// DefaultTable returns the shipped table, which is read once.
func DefaultTable() *Table { return defaultTable() }

var defaultTable = sync.OnceValue(func() *Table {
	t, err := ParseTable(shippedTable)
	if err != nil {
		panic("BUG: embedded providers.toml: " + err.Error())
	}
	return t
})

// Hash identifies the content of the table: two nodes with the same hash have the same rules and limits.
func (t *Table) Hash() [8]byte { return t.hash }

// Scaled returns how long a pause, a quarantine or a back-off of d lasts under this table. At speed-up 0 it is a
// nanosecond, not zero, so that its end still occurs as an event.
func (t *Table) Scaled(d time.Duration) time.Duration {
	switch {
	case t.Speedup == 1 || d <= 0:
		return d
	case t.Speedup == 0:
		return 1
	}
	return max(1, time.Duration(min(float64(d)/t.Speedup, float64(math.MaxInt64/4))))
}

// Provider finds a provider by its id; nil if there is none.
func (t *Table) Provider(id string) *Provider {
	i := slices.IndexFunc(t.Providers, func(p *Provider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return t.Providers[i]
}

// Match finds the provider of a set of MX hosts, best first; t.Unknown if none matches.
// The first host that matches any provider decides, by the longest suffix.
func (t *Table) Match(hosts []string) *Provider {
	for _, h := range hosts {
		if p := t.matchHost(h); p != nil {
			return p
		}
	}
	return t.Unknown
}

func (t *Table) matchHost(host string) *Provider {
	host = strings.TrimSuffix(host, ".")
	if p := t.suffixes[host]; p != nil {
		return p
	}
	for {
		dot := strings.IndexByte(host, '.')
		if dot < 0 {
			return nil
		}
		if p := t.suffixes[host[dot:]]; p != nil {
			return p
		}
		host = host[dot+1:]
	}
}

// ProviderOfHint finds a provider from what a person types: an id, a name, an MX host, a domain, or words that contain
// one of these. Host names win over names, because a word such as "gmail" may also be the sender's.
// It returns t.Unknown if nothing matches.
func (t *Table) ProviderOfHint(s string) *Provider {
	words := strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return strings.ContainsRune(" \t,;<>()[]\"", r) })
	for _, w := range words {
		if p := t.matchHost(w); p != nil {
			return p
		}
	}
	for _, w := range words {
		w = strings.TrimSuffix(w, ".")
		if p := t.names[w]; p != nil {
			return p
		}
		if p := t.suffixes["."+w]; p != nil {
			return p
		}
	}
	return t.Unknown
}

// index prepares the lookups of a table whose providers are complete.
func (t *Table) index() {
	t.suffixes, t.names = map[string]*Provider{}, map[string]*Provider{}
	for _, p := range t.Providers {
		for _, suffix := range p.MX {
			t.suffixes[suffix] = p
		}
		t.names[p.ID] = p
		for _, name := range slices.Concat(p.Aliases, p.ByAddress, []string{strings.ToLower(p.Name)}) {
			if t.names[name] == nil {
				t.names[name] = p
			}
		}
	}
}
