package hosthealth

import (
	"net/netip"
	"slices"
	"time"

	"probity/engine"
)

// addressKey is the name of an address's record; no host has it.
func addressKey(a netip.Addr) string { return "[" + a.String() + "]" }

// addressDown reports whether an address failed lately, and the end of that.
func (h *Hosts) addressDown(a netip.Addr, now time.Time) (until time.Time, down bool) {
	_, down = h.Down(addressKey(a), now)
	if down {
		until = h.records[addressKey(a)].down.until
	}
	return until, down
}

// AddressFailed reports whether an address failed lately.
func (h *Hosts) AddressFailed(a netip.Addr, now time.Time) bool {
	_, down := h.addressDown(a, now)
	return down
}

// NextAddress returns the address of a host that is connected to next (RFC 5321 section 5.1): the first that has not
// failed, else the one whose failure is over first. It is the zero Addr if there is none.
func (h *Hosts) NextAddress(addrs []netip.Addr, now time.Time) (next netip.Addr) {
	var earliest time.Time
	for _, a := range addrs {
		until, down := h.addressDown(a, now)
		if !down {
			return a
		}
		if !next.IsValid() || until.Before(earliest) {
			next, earliest = a, until
		}
	}
	return next
}

// addressLife is how long an address that failed comes last, at any speed-up: longer than all addresses of a host take
// to fail.
const addressLife = 2 * time.Minute

// FailAddress records a failure before RCPT of one address of a host. It reports whether another is left, to which the
// next connection goes. A reply is the host's, wherever it was given, unless it speaks of a trouble of the machine.
func (h *Hosts) FailAddress(a netip.Addr, addrs []netip.Addr, seen *engine.Sighting, now time.Time) (another bool) {
	if !a.IsValid() || seen.Event == engine.EventReply && seen.Finding.Meaning != engine.Temporary {
		return false
	}
	r := h.record(addressKey(a), maxHosts)
	if r == nil {
		return false // it would be tried again and again
	}
	r.down = &downtime{until: now.Add(addressLife)}
	return slices.ContainsFunc(addrs, func(other netip.Addr) bool { return !h.AddressFailed(other, now) })
}

// MarkAddressUp forgets the failure of an address.
func (h *Hosts) MarkAddressUp(a netip.Addr) {
	if r := h.records[addressKey(a)]; r != nil {
		r.down = nil
		h.forgetEmpty(addressKey(a), r)
	}
}
