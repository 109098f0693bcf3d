package store

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/simplelru"
)

// LoginsPerMinute is how many login attempts a client network may make in a minute. Few clients that log in share a network, and
// an attacker's guesses count only for its own.
const LoginsPerMinute = 30

// maxNetworks bounds the networks in memory: beyond it, the one that was idle longest is dropped.
const maxNetworks = 1 << 14

// networkOf is the network that one client can be expected to control: an IPv4 /24, an IPv6 /64. Clients without an address
// share one.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 24
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// loginAttempts counts logins by client network, and failures by address and network. It is only in memory: requests without an
// account must not write to the disk.
type loginAttempts struct {
	mu      sync.Mutex
	windows *simplelru.LRU // netip.Prefix to *window; guarded by mu, windows included
	logins  *simplelru.LRU // loginKey to login; guarded by mu
}

// loginKey is the key by which failures are counted, whether or not the account exists.
type loginKey struct {
	email   KeyHash // of the folded address
	network netip.Prefix
	codes   bool // counts wrong codes, from all networks
}

// maxLogins bounds the entries of failures; the least recently used is dropped first. To displace one, an attacker needs as many
// attempts, from a thousand networks, and gains only freeAttempts.
const maxLogins = 1 << 15

func newLoginAttempts() *loginAttempts {
	windows, err := simplelru.NewLRU(maxNetworks, nil)
	logins, err2 := simplelru.NewLRU(maxLogins, nil)
	if err := errors.Join(err, err2); err != nil {
		panic("BUG: " + err.Error())
	}
	return &loginAttempts{windows: windows, logins: logins}
}

func (l Login) key() loginKey {
	return loginKey{email: hashSecret(foldEmail(l.Email)), network: networkOf(l.From)}
}

func (l Login) codeKey() loginKey {
	return loginKey{email: hashSecret(foldEmail(l.Email)), codes: true}
}

// checkLocked refuses an attempt of a locked key, before it waits for a hash.
func (a *loginAttempts) checkLocked(k loginKey, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.logins.Get(k); ok && now.Before(known.(loginFailures).Until) {
		return &ErrLockedOut{Until: known.(loginFailures).Until, Codes: k.codes}
	}
	return nil
}

// countAttempt counts an attempt as a failure; succeed resets the count.
func (a *loginAttempts) countAttempt(k loginKey, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var one loginFailures
	if known, ok := a.logins.Get(k); ok {
		one = known.(loginFailures)
	}
	if now.Before(one.Until) {
		return &ErrLockedOut{Until: one.Until, Codes: k.codes}
	}
	a.logins.Add(k, one.afterFailure(now))
	return nil
}

// succeed resets the failures of a key.
func (a *loginAttempts) succeed(k loginKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logins.Remove(k)
}

// forgetAddress resets the failures of an address from all networks.
func (a *loginAttempts) forgetAddress(email string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	emailHash := hashSecret(foldEmail(email))
	for _, k := range a.logins.Keys() {
		if k.(loginKey).email == emailHash {
			a.logins.Remove(k)
		}
	}
}

// AllowLogin checks and counts one attempt to log in from a client's address.
func (s *Logins) AllowLogin(from netip.Addr, now time.Time) Decision {
	a, network := s.attempts, networkOf(from)
	a.mu.Lock()
	defer a.mu.Unlock()
	w := new(window)
	if known, ok := a.windows.Get(network); ok {
		w = known.(*window)
	} else {
		a.windows.Add(network, w)
	}
	return w.allow(Limit{LoginsPerMinute, time.Minute}, now)
}
