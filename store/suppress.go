package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// SuppressionKind is what a suppression applies to.
type SuppressionKind string

// The kinds. A domain and an MX name include all their subdomains.
const (
	SuppressionDomain  SuppressionKind = "domain"
	SuppressionMX      SuppressionKind = "mx"
	SuppressionAddress SuppressionKind = "address"
)

// Suppression is one entry of the suppression list: what it names is never probed.
type Suppression struct {
	Kind  SuppressionKind `json:"kind"`
	Name  string          `json:"name"` // lower case; a domain as A-labels, an address in the engine's folded form
	Note  string          `json:"note,omitempty"`
	By    string          `json:"by,omitempty"`
	Since time.Time       `json:"since"`
}

// MaxSuppressions bounds the list, which is kept in memory.
const MaxSuppressions = 100_000

// The refusals of the list.
var (
	ErrBadSuppression   = errors.New("suppress a domain, an mx name or an address")
	ErrSuppressionsFull = fmt.Errorf("the suppression list holds at most %d entries", MaxSuppressions)
)

// suppressionList is the list for look-ups, by kind and name. It is immutable and replaced as a whole.
type suppressionList map[suppressionID]Suppression

type suppressionID struct {
	kind SuppressionKind
	name string
}

// Privacy is what must not be probed, and what is erased.
type Privacy struct {
	*DB
	suppressed   atomic.Pointer[suppressionList]
	suppressedMu sync.Mutex // serialises loadSuppressions
}

// normalize validates a suppression and normalises its name.
func (s *Suppression) normalize() error {
	s.Name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(s.Name), "."))
	at := strings.LastIndexByte(s.Name, '@')
	bad := strings.ContainsFunc(s.Name, func(r rune) bool { return r <= ' ' || r == 0x7f })
	if bad || len(s.Name) > MaxName || len(s.Note) > maxNote {
		return ErrBadSuppression
	}
	switch s.Kind {
	case SuppressionDomain, SuppressionMX:
		if at >= 0 || !strings.Contains(s.Name, ".") {
			return ErrBadSuppression
		}
	case SuppressionAddress:
		if at <= 0 || at == len(s.Name)-1 {
			return ErrBadSuppression
		}
	default:
		return ErrBadSuppression
	}
	return nil
}

// auditNote describes the suppression for the audit log, without an address: erasures do not reach that log.
func (s Suppression) auditNote() string {
	if s.Kind == SuppressionAddress {
		return "an address"
	}
	return s.Name
}

// suppressionKey has the hash of the name: no key contains an address in clear.
func suppressionKey(kind SuppressionKind, name string) []byte {
	hash := hashSecret(name)
	return subKey(tableSuppression, string(kind), hash[:])
}

// Suppress adds suppressions, all or none, and sets each to what the list has then. They are in force when it returns.
// Adding one again changes nothing but its note, if there is another.
func (p *Privacy) Suppress(suppressions []Suppression, now time.Time) error {
	parts := []Part{func(*pebble.Batch) error {
		if len(suppressions)+len(*p.suppressed.Load()) > MaxSuppressions {
			return ErrSuppressionsFull
		}
		return nil
	}}
	for i := range suppressions {
		x := &suppressions[i]
		if err := x.normalize(); err != nil {
			return fmt.Errorf("%s %q: %w", x.Kind, x.Name, err)
		}
		event := AuditEvent{At: now, By: x.By, Action: "suppress", Target: string(x.Kind), Note: x.auditNote()}
		x.Since = now.UTC()
		x.By, _, _ = strings.Cut(x.By, actorSeparator)
		parts = append(parts, func(b *pebble.Batch) error {
			k := suppressionKey(x.Kind, x.Name)
			old, err := readJSON[Suppression](b, k)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			if err == nil {
				note := cmp.Or(x.Note, old.Note)
				*x = old
				if note == old.Note {
					return nil
				}
				x.Note = note
			}
			return errors.Join(setJSON(b, k, *x), event.write(b))
		})
	}
	return p.commitSuppressions(parts...)
}

// Unsuppress removes a suppression, or returns ErrNotFound.
func (p *Privacy) Unsuppress(kind SuppressionKind, name, by string, now time.Time) error {
	x := Suppression{Kind: kind, Name: name}
	if err := x.normalize(); err != nil {
		return err
	}
	drop := func(b *pebble.Batch) error {
		if _, err := get(b, suppressionKey(x.Kind, x.Name)); err != nil {
			return fmt.Errorf("suppression of %s %s: %w", kind, x.Name, err)
		}
		return b.Delete(suppressionKey(x.Kind, x.Name), nil)
	}
	event := AuditEvent{At: now, By: by, Action: "unsuppress", Target: string(kind), Note: x.auditNote()}
	return p.commitSuppressions(drop, event.write)
}

func (p *Privacy) commitSuppressions(parts ...Part) error {
	if err := p.Commit("", parts...); err != nil {
		return err
	}
	return p.loadSuppressions()
}

// loadSuppressions reads the list again and replaces the one in memory.
func (p *Privacy) loadSuppressions() error {
	p.suppressedMu.Lock()
	defer p.suppressedMu.Unlock()
	all, err := p.Suppressions()
	if err != nil {
		return err
	}
	next := suppressionList{}
	for _, x := range all {
		next[suppressionID{x.Kind, x.Name}] = x
	}
	p.suppressed.Store(&next)
	return nil
}

// Suppressions lists the suppressions by kind and name.
func (p *Privacy) Suppressions() ([]Suppression, error) {
	all, err := listJSON[Suppression](p.db, []byte{tableSuppression})
	slices.SortFunc(all, func(a, b Suppression) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// SuppressedDomain finds the suppression of a domain or of one of its MX hosts. All names are in lower case and without
// final dots, as the engine has them. It reads only memory.
func (p *Privacy) SuppressedDomain(domain string, hosts []string) (Suppression, bool) {
	l := *p.suppressed.Load()
	x, ok := l.findWithParents(SuppressionDomain, domain)
	for i := 0; i < len(hosts) && !ok; i++ {
		x, ok = l.findWithParents(SuppressionMX, hosts[i])
	}
	return x, ok
}

// SuppressedAddress finds the suppression of one folded address. It reads only memory.
func (p *Privacy) SuppressedAddress(folded string) (Suppression, bool) {
	x, ok := (*p.suppressed.Load())[suppressionID{SuppressionAddress, folded}]
	return x, ok
}

// findWithParents finds a name or its nearest parent domain.
func (l suppressionList) findWithParents(kind SuppressionKind, name string) (x Suppression, ok bool) {
	for more := len(l) > 0; more && !ok; _, name, more = strings.Cut(name, ".") {
		x, ok = l[suppressionID{kind, name}]
	}
	return x, ok
}
