package store

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/simplelru"
)

// LoginsPerMinute is how many passwords a client network may have compared in a minute. One of many clients shares its network
// with few others that log in; a stranger's guesses fill its own window and no other.
const LoginsPerMinute = 30

// maxNetworks bounds the networks that are remembered: beyond it the one that was idle for the longest time is forgotten.
const maxNetworks = 1 << 14

// networkOf is what one client can be expected to have at its disposal: an IPv4 /24, an IPv6 /64. Clients without an address
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

// loginAttempts counts logins by the network that they come from, and failures by address and network. It lives in memory: what
// strangers do must not write to the disk.
type loginAttempts struct {
	mu      sync.Mutex
	windows *simplelru.LRU // netip.Prefix to *window; guarded by mu, windows included
	logins  *simplelru.LRU // loginKey to login; guarded by mu
}

// loginKey is what failures are counted by, whether or not there is such an account.
type loginKey struct {
	email   KeyHash // of the folded address
	network netip.Prefix
	codes   bool // counts wrong codes, from all networks
}

// maxLogins bounds the failures that are remembered, the oldest of which give way. To drive one out takes as many comparisons of
// passwords, from a thousand networks, and gains freeAttempts.
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

// checkLocked refuses an attempt that would be refused in its turn.
func (a *loginAttempts) checkLocked(k loginKey, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.logins.Get(k); ok && now.Before(known.(loginFailures).Until) {
		return &ErrLockedOut{Until: known.(loginFailures).Until, Codes: k.codes}
	}
	return nil
}

// countAttempt takes an attempt for a failure until succeed is called.
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

// succeed forgets the failures that a key counts.
func (a *loginAttempts) succeed(k loginKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logins.Remove(k)
}

// forgetAddress forgets the failures of an address from everywhere.
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

// AllowLogin judges and counts one attempt to log in from a client's address.
func (s *Store) AllowLogin(from netip.Addr, now time.Time) Decision {
	a, network := s.accountCache.attempts, networkOf(from)
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
