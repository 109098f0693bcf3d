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
func (x *Suppression) normalize() error {
	x.Name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(x.Name), "."))
	at := strings.LastIndexByte(x.Name, '@')
	bad := strings.ContainsFunc(x.Name, func(r rune) bool { return r <= ' ' || r == 0x7f })
	if bad || len(x.Name) > MaxName || len(x.Note) > maxNote {
		return ErrBadSuppression
	}
	switch x.Kind {
	case SuppressionDomain, SuppressionMX:
		if at >= 0 || !strings.Contains(x.Name, ".") {
			return ErrBadSuppression
		}
	case SuppressionAddress:
		if at <= 0 || at == len(x.Name)-1 {
			return ErrBadSuppression
		}
	default:
		return ErrBadSuppression
	}
	return nil
}

// auditNote describes the suppression for the audit log, without an address: erasures do not reach that log.
func (x Suppression) auditNote() string {
	if x.Kind == SuppressionAddress {
		return "an address"
	}
	return x.Name
}

// suppressionKey has the hash of the name: no key contains an address in clear.
func suppressionKey(kind SuppressionKind, name string) []byte {
	hash := hashSecret(name)
	return subKey(tableSuppression, string(kind), hash[:])
}

// Suppress adds suppressions, all or none, and sets each to what the list has then. They are in force when it returns. Adding one again
// changes nothing but its note, if there is another.
func (s *Privacy) Suppress(suppressions []Suppression, now time.Time) error {
	parts := []Part{func(*pebble.Batch) error {
		if len(suppressions)+len(*s.suppressed.Load()) > MaxSuppressions {
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
	return s.commitSuppressions(parts...)
}

// Unsuppress removes a suppression, or returns ErrNotFound.
func (s *Privacy) Unsuppress(kind SuppressionKind, name, by string, now time.Time) error {
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
	return s.commitSuppressions(drop, event.write)
}

func (s *Privacy) commitSuppressions(parts ...Part) error {
	if err := s.Commit("", parts...); err != nil {
		return err
	}
	return s.loadSuppressions()
}

// loadSuppressions reads the list again and replaces the one in memory.
func (s *Privacy) loadSuppressions() error {
	s.suppressedMu.Lock()
	defer s.suppressedMu.Unlock()
	all, err := s.Suppressions()
	if err != nil {
		return err
	}
	next := suppressionList{}
	for _, x := range all {
		next[suppressionID{x.Kind, x.Name}] = x
	}
	s.suppressed.Store(&next)
	return nil
}

// Suppressions lists the suppressions by kind and name.
func (s *Privacy) Suppressions() ([]Suppression, error) {
	all, err := listJSON[Suppression](s.db, []byte{tableSuppression})
	slices.SortFunc(all, func(a, b Suppression) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// SuppressedDomain finds the suppression of a domain or of one of its MX hosts. All names are in lower case and without final
// dots, as the engine has them. It reads only memory.
func (s *Privacy) SuppressedDomain(domain string, hosts []string) (Suppression, bool) {
	l := *s.suppressed.Load()
	x, ok := l.findWithParents(SuppressionDomain, domain)
	for i := 0; i < len(hosts) && !ok; i++ {
		x, ok = l.findWithParents(SuppressionMX, hosts[i])
	}
	return x, ok
}

// SuppressedAddress finds the suppression of one folded address. It reads only memory.
func (s *Privacy) SuppressedAddress(folded string) (Suppression, bool) {
	x, ok := (*s.suppressed.Load())[suppressionID{SuppressionAddress, folded}]
	return x, ok
}

// findWithParents finds a name or its nearest parent domain.
func (l suppressionList) findWithParents(kind SuppressionKind, name string) (x Suppression, ok bool) {
	for more := len(l) > 0; more && !ok; _, name, more = strings.Cut(name, ".") {
		x, ok = l[suppressionID{kind, name}]
	}
	return x, ok
}
