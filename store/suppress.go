package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// StopKind is what a suppression names.
type StopKind string

// The kinds. A domain and an MX name stand for everything below them too: the owner of example.com asked for all of it.
const (
	StopDomain  StopKind = "domain"
	StopMX      StopKind = "mx"
	StopAddress StopKind = "address"
)

// Suppression is one wish never to be probed.
type Suppression struct {
	Kind  StopKind  `json:"kind"`
	Name  string    `json:"name"` // lower case; a domain as A-labels, an address in the engine's folded form
	Note  string    `json:"note,omitempty"`
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since"`
}

// MaxSuppressions bounds the list, which is held in memory.
const MaxSuppressions = 100_000

// The refusals of the list.
var (
	ErrBadSuppression = errors.New("suppress a domain, an mx name or an address")
	ErrSuppressFull   = fmt.Errorf("the suppress list holds %d wishes and no more", MaxSuppressions)
)

// stopList is the list as look-ups see it: immutable, swapped whole.
type stopList struct {
	domains, hosts, addresses map[string]Suppression
}

func (l *stopList) size() int { return len(l.domains) + len(l.hosts) + len(l.addresses) }

func (l *stopList) table(kind StopKind) map[string]Suppression {
	switch kind {
	case StopDomain:
		return l.domains
	case StopMX:
		return l.hosts
	case StopAddress:
		return l.addresses
	}
	return nil
}

// fold checks a wish and brings its name to the form of the list.
func (x *Suppression) fold() error {
	x.Name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(x.Name), "."))
	at := strings.LastIndexByte(x.Name, '@')
	bad := strings.ContainsFunc(x.Name, func(r rune) bool { return r <= ' ' || r == 0x7f })
	if bad || len(x.Name) > MaxName || len(x.Note) > maxNote {
		return ErrBadSuppression
	}
	switch x.Kind {
	case StopDomain, StopMX:
		if at >= 0 || !strings.Contains(x.Name, ".") {
			return ErrBadSuppression
		}
	case StopAddress:
		if at <= 0 || at == len(x.Name)-1 {
			return ErrBadSuppression
		}
	default:
		return ErrBadSuppression
	}
	return nil
}

// note is what the audit log, which nothing is erased from, may know of the wish.
func (x Suppression) note() string {
	if x.Kind == StopAddress {
		return "an address"
	}
	return x.Name
}

// stopKey holds the hash of the name: an address in clear is never a key.
func stopKey(kind StopKind, name string) []byte {
	hash := hashSecret(name)
	return append(keyUnder(tableStop, string(kind)), hash[:]...)
}

// Suppress adds wishes, all or none, which hold from the moment this returns. Adding one again changes its note.
func (s *Store) Suppress(wishes []Suppression, now time.Time) error {
	parts := []Part{func(*pebble.Batch) error {
		if s.live.stops.Load().size()+len(wishes) > MaxSuppressions {
			return ErrSuppressFull
		}
		return nil
	}}
	for _, x := range wishes {
		if err := x.fold(); err != nil {
			return fmt.Errorf("%s %q: %w", x.Kind, x.Name, err)
		}
		act := Act{At: now, By: x.By, Act: "suppress", Target: string(x.Kind), Note: x.note()}
		x.Since, x.By = now.UTC(), who(x.By)
		set := func(b *pebble.Batch) error { return setJSON(b, stopKey(x.Kind, x.Name), x) }
		parts = append(parts, set, act.write)
	}
	if err := s.Commit("", parts...); err != nil {
		return err
	}
	return s.live.loadStops(s)
}

// Unsuppress takes a wish off the list, or answers ErrNotFound.
func (s *Store) Unsuppress(kind StopKind, name, by string, now time.Time) error {
	x := Suppression{Kind: kind, Name: name}
	if err := x.fold(); err != nil {
		return err
	}
	drop := func(b *pebble.Batch) error {
		if _, err := get(b, stopKey(x.Kind, x.Name)); err != nil {
			return fmt.Errorf("suppression of %s %s: %w", kind, x.Name, err)
		}
		return b.Delete(stopKey(x.Kind, x.Name), nil)
	}
	act := Act{At: now, By: by, Act: "unsuppress", Target: string(kind), Note: x.note()}
	if err := s.Commit("", drop, act.write); err != nil {
		return err
	}
	return s.live.loadStops(s)
}

// loadStops reads the list again and swaps it in.
func (l *live) loadStops(s *Store) error {
	l.stopping.Lock()
	defer l.stopping.Unlock()
	next := &stopList{map[string]Suppression{}, map[string]Suppression{}, map[string]Suppression{}}
	err := scan(s.db, []byte{tableStop}, nil, func(_, v []byte) error {
		var x Suppression
		if err := json.Unmarshal(v, &x); err != nil {
			return fmt.Errorf("suppress list: %w", err)
		}
		if table := next.table(x.Kind); table != nil {
			table[x.Name] = x
		}
		return nil
	})
	if err == nil {
		l.stops.Store(next)
	}
	return err
}

// Suppressions lists the wishes by kind and name.
func (s *Store) Suppressions() ([]Suppression, error) {
	var all []Suppression
	err := scan(s.db, []byte{tableStop}, nil, func(_, v []byte) error {
		var x Suppression
		err := json.Unmarshal(v, &x)
		all = append(all, x)
		return err
	})
	slices.SortFunc(all, func(a, b Suppression) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// SuppressedDomain is the wish that forbids to probe a domain whose mail goes to these hosts. All in lower case and
// without final dots, as the engine has them. It reads only memory.
func (s *Store) SuppressedDomain(domain string, hosts []string) (Suppression, bool) {
	l := s.live.stops.Load()
	if x, ok := above(l.domains, domain); ok {
		return x, true
	}
	for _, h := range hosts {
		if x, ok := above(l.hosts, h); ok {
			return x, true
		}
	}
	return Suppression{}, false
}

// SuppressedAddress is the wish that forbids to probe one folded address. It reads only memory.
func (s *Store) SuppressedAddress(folded string) (Suppression, bool) {
	x, ok := s.live.stops.Load().addresses[folded]
	return x, ok
}

// above finds a name or the nearest name above it.
func above(table map[string]Suppression, name string) (Suppression, bool) {
	for len(table) > 0 {
		if x, ok := table[name]; ok {
			return x, true
		}
		_, parent, ok := strings.Cut(name, ".")
		if !ok {
			break
		}
		name = parent
	}
	return Suppression{}, false
}
