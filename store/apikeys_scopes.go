package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Scopes is the set of permissions of a key. The zero value permits nothing.
type Scopes uint8

// The scopes. A key that is created without scopes has DefaultScopes.
const (
	ScopeVerify  Scopes = 1 << iota // verify addresses
	ScopeJobs                       // upload lists, follow jobs, get their results
	ScopeAccount                    // read the account
	ScopeAdmin                      // admin actions; only for live keys of an admin

	DefaultScopes = ScopeVerify | ScopeJobs
)

var scopeNames = []string{"verify", "jobs", "account", "admin"} // in the order of their bits

// Names lists the scopes of a set.
func (s Scopes) Names() []string {
	names := []string{}
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ParseScopes parses the names of scopes; nil is DefaultScopes, and an empty list is refused.
func ParseScopes(names []string) (set Scopes, err error) {
	if names == nil {
		return DefaultScopes, nil
	}
	for _, name := range names {
		i := slices.Index(scopeNames, name)
		if i < 0 {
			return 0, fmt.Errorf("%w: unknown scope %q: use %s", ErrBadScopes, name, strings.Join(scopeNames, ", "))
		}
		set |= 1 << i
	}
	if set == 0 {
		return 0, fmt.Errorf("%w: scopes is empty: leave it out for %s, or name some", ErrBadScopes,
			strings.Join(DefaultScopes.Names(), " and "))
	}
	return set, nil
}

// MarshalJSON writes a set as the list of its names.
func (s Scopes) MarshalJSON() ([]byte, error) { return json.Marshal(s.Names()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Scopes) UnmarshalJSON(b []byte) error {
	var names []string
	err := json.Unmarshal(b, &names)
	if err == nil {
		*s, err = ParseScopes(names)
	}
	return err
}

// MaxNetworks bounds the networks of a key.
const MaxNetworks = 32

// ParseNetworks parses the networks from which a key may be used, each an address or a prefix such as 192.0.2.0/24; nil
// is from anywhere, and an empty list is refused.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	if len(texts) > MaxNetworks {
		return nil, fmt.Errorf("%w: %d of them, at most %d", ErrBadNetwork, len(texts), MaxNetworks)
	}
	if texts != nil && len(texts) == 0 {
		return nil, fmt.Errorf("%w: networks is empty: leave it out for a key that may be used from anywhere, or name some", ErrBadNetwork)
	}
	var nets []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, e := netip.ParseAddr(text); err != nil && e == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%w: %q: use an address or a prefix such as 192.0.2.0/24 or 2001:db8::/48",
				ErrBadNetwork, text)
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("%w: %q has bits set behind its prefix: use %s for the network, or %s for the address", ErrBadNetwork, text, p.Masked(), p.Addr())
		}
		nets = append(nets, p)
	}
	return nets, nil
}

// The refusals of a new key's terms.
var (
	ErrBadScopes  = errors.New("scopes cannot be given to this key")
	ErrBadNetwork = errors.New("networks cannot be given to this key")
	ErrBeyondKey  = errors.New("a key makes only keys that end no later and reach no further than itself")
	ErrBadExpiry  = errors.New("the key would have ended already: expires_at must be later than now")
)

// NewKey describes a key for CreateKey.
type NewKey struct {
	Name     string
	Test     bool
	Scopes   Scopes         // zero: DefaultScopes
	Expires  time.Time      // zero: never
	Networks []netip.Prefix // empty: from anywhere
}

// describe returns the scopes, the expiry and the networks of a key as text.
func (k APIKey) describe() string {
	text := strings.Join(k.Scopes.Names(), ", ")
	if !k.Expires.IsZero() {
		text += "; until " + k.Expires.Format(time.RFC3339)
	}
	for i, p := range k.Networks {
		text += []string{"; from ", ", "}[min(i, 1)] + p.String()
	}
	return text
}

// MayUse reports whether the key of a request has one of these scopes.
func (id Identity) MayUse(of Scopes) bool { return id.Scopes&of != 0 }

// MayComeFrom reports whether the key of a request may be used from this address.
func (id Identity) MayComeFrom(a netip.Addr) bool {
	return len(id.Networks) == 0 || slices.ContainsFunc(id.Networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Confine gives a new key the networks and the expiry of the key that makes it where it names none, and refuses it with
// ErrBeyondKey where it names more. A session confines nothing.
func (id Identity) Confine(n *NewKey) error {
	if n.Networks == nil {
		n.Networks = id.Networks
	}
	if n.Expires.IsZero() {
		n.Expires = id.Expires
	}
	if !id.Expires.IsZero() && n.Expires.After(id.Expires) {
		return fmt.Errorf("%w, at %s", ErrBeyondKey, id.Expires.Format(time.RFC3339))
	}
	for _, p := range n.Networks {
		holds := func(own netip.Prefix) bool { return own.Bits() <= p.Bits() && own.Contains(p.Addr()) }
		if len(id.Networks) > 0 && !slices.ContainsFunc(id.Networks, holds) {
			return fmt.Errorf("%w, which excludes %s", ErrBeyondKey, p)
		}
	}
	return nil
}

// readKeyRecord reads a stored key.
func readKeyRecord(v []byte, account string) (rec apiKeyRecord, err error) {
	if err := json.Unmarshal(v, &rec); err != nil {
		return rec, fmt.Errorf("API key of %s: %w", account, err)
	}
	return rec, nil
}
