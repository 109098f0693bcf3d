package sim

import (
	"net/netip"
	"sync"
)

// blocklists say which sources are refused, whatever they have done. Safe for concurrent use.
type blocklists struct {
	mu     sync.RWMutex                   // guards listed
	listed map[netip.Addr]map[string]bool // source -> provider ids; "" stands for every receiver
}

// Blocklist has a provider refuse a source in its own words, or every receiver in the words of a public blocklist where
// provider is empty, until Pardon.
func (s *Server) Blocklist(source netip.Addr, provider string) {
	b := &s.smtp.blocklists
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

// Unblock takes a source off all lists.
func (s *Server) Unblock(source netip.Addr) {
	b := &s.smtp.blocklists
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.listed, source)
}

// refusal is what a listed source hears at a persona's banner; empty for one that is not listed.
func (b *blocklists) refusal(source netip.Addr, p *Persona) string {
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
