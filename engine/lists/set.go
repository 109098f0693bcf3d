package lists

import (
	"probity/engine"
	"probity/engine/typo"
)

// Set is all lists of one file. Its content never changes.
type Set struct {
	fingerprint string
	disposable  *index
	free        *index
	alias       *index
	role        *index
	qualifier   *index
	warnings    []string // about the override file
}

// Fingerprint is the hash of what the lists were generated from, "sha256:" and hexadecimal, and of the override file,
// if any.
func (s *Set) Fingerprint() string { return s.fingerprint }

// Warnings say what in the override file has no effect.
func (s *Set) Warnings() []string { return s.warnings }

// Counts are the numbers of entries of each list.
type Counts struct{ Disposable, Free, Alias, Role int }

// Counts counts the entries of each list.
func (s *Set) Counts() Counts { return Counts{s.disposable.n, s.free.n, s.alias.n, s.role.n} }

// Flags are the flags of an address: those of its domain, and FlagRole.
func (s *Set) Flags(a engine.Address) engine.Flags {
	if a.IsZero() {
		return 0
	}
	fl := s.DomainFlags(a.Domain())
	if s.Role(a.Local()) {
		fl |= engine.FlagRole
	}
	return fl
}

// DomainFlags is the part of Flags that all addresses of a domain share.
func (s *Set) DomainFlags(domain string) (fl engine.Flags) {
	if s.Alias(domain) {
		fl |= engine.FlagAlias
	}
	if s.Free(domain) {
		fl |= engine.FlagFree
	}
	if fl != 0 {
		return fl // no such domain is disposable, and a known domain is not a typo
	}
	if s.Disposable(domain) {
		fl |= engine.FlagDisposable
	}
	if _, ok := typo.Suggest(domain, s.Known); ok {
		fl |= engine.FlagTypo
	}
	return fl
}

// Disposable reports whether domain is listed, or a sub-domain of one.
func (s *Set) Disposable(domain string) bool { return s.disposable.covers(domain) }

// Alias reports whether domain is the domain of a service that forwards mail to its customer's mailbox elsewhere, or a
// sub-domain of one.
func (s *Set) Alias(domain string) bool { return s.alias.covers(domain) }

// Free reports whether domain is a domain with free mailboxes for anyone.
func (s *Set) Free(domain string) bool { return s.free.has(domain) }

// Known reports whether domain is a domain that gives mailboxes or aliases: such a domain is not a typo, however close
// it is to a major provider's. Every major provider's domain is on the free list.
func (s *Set) Known(domain string) bool { return s.free.has(domain) || s.Alias(domain) }

// Suggest is the address that was probably meant, "" for none.
func (s *Set) Suggest(a engine.Address) string {
	if d, ok := typo.Suggest(a.Domain(), s.Known); ok {
		return a.Local() + "@" + d
	}
	return ""
}
