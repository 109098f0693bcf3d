package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"probity/store/window"
)

// The sign-ins that one client (an IPv4 address, an IPv6 /64) and one network (an IPv4 /24, an IPv6 /48) may make in a
// minute. Few clients that sign in share a network. A client cannot use up the sign-ins of its neighbours alone, and
// the addresses of an attacker's network are not worth more than one network.
const (
	ClientPerMinute  = 30
	NetworkPerMinute = 45
)

// maxWindows bounds the clients and networks in memory: beyond it, the one that was idle longest is dropped.
const maxWindows = 1 << 15

// MaxFailing bounds the keys of failures; the least recently used is dropped first. To displace one, an attacker needs
// as many attempts, from a thousand networks, and gains only freeAttempts.
const MaxFailing = 1 << 15

// macSize is the size of one half of a Key.
const macSize = 16

// Key is what failures are counted by: a login and a network, in a form that tells neither.
type Key [2 * macSize]byte

// ForPasswords returns the key of wrong passwords for a login from the network of an address: an IPv4 /24, an IPv6 /64.
func ForPasswords(secret []byte, login string, from netip.Addr) Key {
	return newKey(secret, login, prefixOf(from, 24, 64).String())
}

// ForCodes returns the key of wrong codes for a login, from all networks.
func ForCodes(secret []byte, login string) Key { return newKey(secret, login, "codes") }

func newKey(secret []byte, login, network string) (k Key) {
	for i, text := range [...]string{login, network} {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		copy(k[i*macSize:], mac.Sum(nil)[:macSize])
	}
	return k
}

// sameLogin reports whether two keys are of one login.
func (k Key) sameLogin(other Key) bool { return [macSize]byte(k[:]) == [macSize]byte(other[:]) }

// prefixOf returns the network of an address. Clients without an address share one.
func prefixOf(a netip.Addr, bits4, bits6 int) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := bits4
	if a.Is6() {
		bits = bits6
	}
	p, _ := a.Prefix(bits)
	return p
}

// Guard counts sign-ins by client and network, and failures by key. It is in memory; a store keeps the lock-outs, by
// Changes and Restore.
type Guard struct {
	mu       sync.Mutex
	windows  *simplelru.LRU[any, *window.Window] // by client and network; guarded by mu, windows included
	failures *simplelru.LRU[Key, Failures]       // guarded by mu
	// lock-outs that began or were dropped since the last Changes; guarded by mu
	changed map[Key]bool
}

// New returns a Guard that counts failures of at most so many keys.
func New(maxFailing int) *Guard {
	g := &Guard{changed: map[Key]bool{}}
	windows, err := simplelru.NewLRU[any, *window.Window](maxWindows, nil)
	failures, err2 := simplelru.NewLRU(maxFailing, g.dropped)
	if err := errors.Join(err, err2); err != nil {
		panic("BUG: " + err.Error())
	}
	g.windows, g.failures = windows, failures
	return g
}

// dropped is called with each key that leaves the failures.
func (g *Guard) dropped(k Key, f Failures) {
	if f.LockOut() {
		g.changed[k] = true
	}
}

// Allow checks and counts one sign-in from a client's address.
func (g *Guard) Allow(from netip.Addr, now time.Time) window.Decision {
	byNetwork := window.Limit{N: NetworkPerMinute, Per: time.Minute}
	byClient := window.Limit{N: ClientPerMinute, Per: time.Minute}
	g.mu.Lock()
	defer g.mu.Unlock()
	network := windowOf(g.windows, prefixOf(from, 24, 48))
	d := network.Peek(byNetwork, now)
	if !d.OK { // before its clients take memory
		return d
	}
	client := windowOf(g.windows, oneClient{prefixOf(from, 32, 64)})
	d = window.Stricter(client.Peek(byClient, now), d)
	if d.OK {
		network.Add(byNetwork, now)
		client.Add(byClient, now)
	}
	return d
}

// oneClient is the key of a client's window.
type oneClient struct{ netip.Prefix }

// windowOf returns the window of a client, or of a network by its prefix.
func windowOf(windows *simplelru.LRU[any, *window.Window], of any) *window.Window {
	if known, ok := windows.Get(of); ok {
		return known
	}
	w := new(window.Window)
	windows.Add(of, w)
	return w
}

// Locked returns until when a key is locked out; the zero time if it is not.
func (g *Guard) Locked(k Key, now time.Time) (until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.locked(k, now)
}

func (g *Guard) locked(k Key, now time.Time) (until time.Time) {
	f, _ := g.failures.Get(k)
	if !f.areOver(now) && now.Before(f.until()) {
		return f.until()
	}
	return time.Time{}
}

// Count counts a failure, which Succeed forgets, unless the key is locked out: then it returns until when.
func (g *Guard) Count(k Key, now time.Time) (until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until = g.locked(k, now)
	if !until.IsZero() {
		return until
	}
	f, _ := g.failures.Get(k)
	f = f.after(now)
	g.failures.Add(k, f)
	if f.LockOut() {
		g.changed[k] = true
	}
	return time.Time{}
}

// Succeed forgets the failures of a key.
func (g *Guard) Succeed(k Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures.Remove(k)
}

// ForgetLogin forgets the failures of a key's login, from all networks.
func (g *Guard) ForgetLogin(of Key) {
	g.forget(func(k Key, _ Failures) bool { return k.sameLogin(of) })
}

// Sweep forgets the failures that no longer count, and returns their number.
func (g *Guard) Sweep(now time.Time) int {
	return g.forget(func(_ Key, f Failures) bool { return f.areOver(now) })
}

func (g *Guard) forget(match func(Key, Failures) bool) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, k := range g.failures.Keys() {
		f, _ := g.failures.Peek(k)
		if match(k, f) {
			g.failures.Remove(k)
			n++
		}
	}
	return n
}

// Changes calls visit with each lock-out that began, and with no failures for each that was dropped, since the last
// call.
func (g *Guard) Changes(visit func(Key, Failures) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k := range g.changed {
		f, _ := g.failures.Peek(k)
		if err := visit(k, f); err != nil {
			return err
		}
		delete(g.changed, k)
	}
	return nil
}

// HasChanges reports whether there are changes.
func (g *Guard) HasChanges() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.changed) > 0
}

// Restore sets the failures of a key to what Changes said earlier.
func (g *Guard) Restore(k Key, f Failures) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures.Add(k, f)
}
