package smtpd

import (
	"net/netip"
	"sync"

	"probity/bench/sim/persona"
)

// blocklists say which sources are refused, whatever their behaviour. Safe for concurrent use.
type blocklists struct {
	mu     sync.RWMutex                   // guards listed
	listed map[netip.Addr]map[string]bool // source -> provider ids; "" stands for every receiver
}

// Blocklist makes a provider refuse a source with its own text until Unblock. If provider is empty, every receiver
// refuses it with the text of a public blocklist.
func (b *blocklists) Blocklist(source netip.Addr, provider string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listed == nil {
		b.listed = map[netip.Addr]map[string]bool{}
	}
	if b.listed[source] == nil {
		b.listed[source] = map[string]bool{}
	}
	b.listed[source][provider] = true
}

// Unblock removes a source from all blocklists.
func (b *blocklists) Unblock(source netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listed, source)
}

// refusal is the banner of a persona for a blocklisted source; empty for any other source.
func (b *blocklists) refusal(source netip.Addr, p *persona.Persona) string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	on := b.listed[source]
	switch {
	case on[""]:
		return "554 5.7.1 Service unavailable; client [" + source.String() + "] blocked using zen.spamhaus.org"
	case p.Provider != "" && on[p.Provider]:
		return "554 5.7.1 Your address " + source.String() + " is on our block list"
	}
	return ""
}
