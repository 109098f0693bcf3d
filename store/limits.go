package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/store/window"
)

const day = 24 * time.Hour

// The limits of the anonymous endpoint, of a client address: an IPv4 address, or an IPv6 /64.
const (
	publicPerDay, publicPerWeek = 3, 10
	networkTimes                = 10 // factor of these limits for an IPv6 /48
)

// minuteWindows are the minute windows of accounts for one kind of call. They are only in memory: a restart loses a
// minute. There is at most one window for each account, of at most maxExactMarks+1 marks.
type minuteWindows struct {
	mu        sync.Mutex
	byAccount map[string]*window.Window // guarded by mu, windows included
}

// AllowSingle checks and counts one request of the account to the single endpoint.
func (a *Accounts) AllowSingle(account string, now time.Time) Decision {
	u, _ := a.user(account)
	return a.singles.allow(account, u.SinglePerMinute(), now)
}

// AllowBatch checks and counts one request of the account to the batch endpoint.
func (a *Accounts) AllowBatch(account string, now time.Time) Decision {
	u, _ := a.user(account)
	return a.batches.allow(account, u.BatchPerMinute(), now)
}

// DomainsPerMinute is the limit of requests about domains, of an account.
const DomainsPerMinute = 60

// AllowDomain checks and counts one request of the account about a domain.
func (a *Accounts) AllowDomain(account string, now time.Time) Decision {
	return a.domains.allow(account, DomainsPerMinute, now)
}

func (m *minuteWindows) allow(account string, perMinute int, now time.Time) Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.byAccount[account]
	if w == nil {
		w = new(window.Window)
		m.byAccount[account] = w
	}
	return w.Allow(Limit{N: perMinute, Per: time.Minute}, now)
}

// bulkWindow is the prefix of the name of an account's hour window.
const bulkWindow = "bulk/"

// OverLimitError is the error of a commit whose event a limit does not allow.
type OverLimitError struct{ Decision }

func (e *OverLimitError) Error() string {
	return fmt.Sprintf("%d in %s are allowed: try again in %s", e.Limit, e.Per, e.RetryAfter)
}

// UploadsLeft checks whether the account may upload a list now. It counts nothing, so that Remaining includes that
// upload.
func (a *Accounts) UploadsLeft(account string, now time.Time) (Decision, error) {
	l := a.uploadLimit(account)
	w, err := readWindow(a.db, l.name)
	if err != nil {
		return Decision{}, err
	}
	d := w.Peek(l.Limit, now)
	if d.OK {
		d.Remaining++
	}
	return d, nil
}

// CountUpload is the part of an acceptance that counts it in the account's hour and sets d. Without room it fails
// with an *OverLimitError. The window survives a restart.
func (a *Accounts) CountUpload(account string, now time.Time, d *Decision) Part {
	return func(b *pebble.Batch) (err error) {
		*d, err = countEvent(b, []namedLimit{a.uploadLimit(account)}, now)
		if err == nil && !d.OK {
			err = &OverLimitError{*d}
		}
		return err
	}
}

func (a *Accounts) uploadLimit(account string) namedLimit {
	u, _ := a.user(account)
	return namedLimit{bulkWindow + account, Limit{N: u.BulkPerHour(), Per: time.Hour}}
}

// publicLock serialises the counting of anonymous requests.
const publicLock = "\x00public"

// AllowPublic checks and counts one anonymous request from a client address: by address, by network and globally. A
// refused request is not counted. Addresses are stored only as HMAC. perDay is the limit of all clients together.
func (s *Store) AllowPublic(client netip.Addr, perDay int, now time.Time) (Decision, error) {
	secret, err := s.Secret("client addresses")
	if err != nil {
		return Decision{}, err
	}
	client = client.Unmap().WithZone("")
	var limits []namedLimit
	add := func(bits, times int) {
		p, _ := client.Prefix(bits) // an invalid address has the zero prefix: all such clients share one window
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(p.String()))
		name := fmt.Sprintf("public/%x", mac.Sum(nil)[:16])
		limits = append(limits, namedLimit{name + "/d", Limit{N: publicPerDay * times, Per: day}},
			namedLimit{name + "/w", Limit{N: publicPerWeek * times, Per: 7 * day}})
	}
	if client.Is6() {
		add(64, 1)
		add(48, networkTimes)
	} else {
		add(client.BitLen(), 1)
	}
	limits = append(limits, namedLimit{"public/all", Limit{N: perDay, Per: day}})
	var d Decision
	err = s.Commit(publicLock, func(b *pebble.Batch) (err error) {
		d, err = countEvent(b, limits, now)
		return err
	})
	return d, err
}

type (
	// Limit is a number of events in a sliding window of time.
	Limit = window.Limit
	// Decision is whether a window has room, and from when.
	Decision = window.Decision
)

// namedLimit is a stored window and its limit.
type namedLimit struct {
	name string
	Limit
}

// readWindow reads a stored window; one that is not stored is empty.
func readWindow(r pebble.Reader, name string) (window.Window, error) {
	v, err := get(r, key(tableWindow, name))
	switch {
	case errors.Is(err, ErrNotFound):
		return window.Window{}, nil
	case err != nil:
		return window.Window{}, err
	case len(v) < expirySize:
		return window.Window{}, fmt.Errorf("limit %s: %w", name, window.ErrDamaged)
	}
	w, err := window.Read(v[expirySize:])
	if err != nil {
		return w, fmt.Errorf("limit %s: %w", name, err)
	}
	return w, nil
}

// countEvent checks one event against all limits, and counts it for each if all of them allow it. A window is stored
// with the time at which its last mark leaves it.
func countEvent(b *pebble.Batch, limits []namedLimit, now time.Time) (d Decision, err error) {
	windows := make([]window.Window, len(limits))
	for i, l := range limits {
		if windows[i], err = readWindow(b, l.name); err != nil {
			return d, err
		}
		one := windows[i].Peek(l.Limit, now)
		d = window.Stricter(d, one)
		if i == 0 {
			d = one
		}
	}
	if !d.OK {
		return d, nil
	}
	for i, l := range limits {
		windows[i].Add(l.Limit, now)
		v := appendUint64(nil, uint64(now.Add(l.Per).UnixNano()))
		if err := b.Set(key(tableWindow, l.name), windows[i].AppendTo(v), nil); err != nil {
			return d, err
		}
	}
	return d, nil
}

// SweepWindows deletes the stored windows that are empty by now, and returns their number.
func (s *Store) SweepWindows(now time.Time) (int, error) {
	return s.sweep([]byte{tableWindow}, func(k, v []byte) (*deletion, error) {
		if !hasExpired(v, now) {
			return nil, nil
		}
		if account, ok := strings.CutPrefix(string(k[1:]), bulkWindow); ok {
			return &deletion{lock: account}, nil
		}
		return &deletion{lock: publicLock}, nil
	})
}
