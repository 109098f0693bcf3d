package budget

import (
	"encoding/binary"
	"time"
)

// lease is the part of the refusal budget that may be used before the state must be on disk again. A restart counts it
// as used at the lease's end.
type lease struct {
	needed bool // false: nothing is persisted
	left   int
	until  time.Time
}

const (
	leaseLife = 2 * time.Minute
	// a lease is a twentieth of the hourly budget, at least 4: a crash costs what is leased and in flight
	leaseParts = 20
	leaseTail  = 5 * time.Minute // reservations under a lease are settled at most this long after its end
)

const budgetVersion = 1

// append encodes what a restart needs: the quarantine, the hour's refusals, and what a fresh lease of `leased` and the
// open reservations may still use. A quarantine for a blocklist adds a byte at the end. The budgets per minute
// are not stored: a restart waits a minute instead.
func (b *Budget) append(dst []byte, leased int, now time.Time) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, budgetVersion), uint64(now.UnixMilli()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(0, b.QuarantinedUntil.UnixMilli())))
	dst = binary.AppendUvarint(dst, uint64(leased+b.refusalWindow.reserved))
	dst = b.refusalWindow.append(dst, now)
	if b.Blocklisted {
		dst = append(dst, blocklistedMark)
	}
	return dst
}

// blocklistedMark is the last byte of the state of a budget whose quarantine is for a blocklist.
const blocklistedMark = 1

// snapshot encodes the state for the disk and ends the current lease; lease.grant begins the next one once the state is
// written.
func (b *Budget) snapshot(dst []byte, now time.Time) (state []byte, leased int) {
	leased = min(max(4, b.Limits.RefusalsPerHour/leaseParts),
		max(0, b.Limits.RefusalsPerHour-b.refusalWindow.used-b.refusalWindow.reserved))
	b.lease.left = 0
	return b.append(dst, leased, now), leased
}

// grant begins a lease whose snapshot is on disk.
func (l *lease) grant(leased int, snapshotAt time.Time) {
	l.left += leased
	l.until = snapshotAt.Add(leaseLife)
}

// read restores what append wrote; false if it is unreadable. The lease counts as used at the last moment at which it
// can have been used.
func (b *Budget) read(src []byte, now time.Time) bool {
	if len(src) < 17 || src[0] != budgetVersion {
		return false
	}
	written, rest := time.UnixMilli(int64(binary.BigEndian.Uint64(src[1:]))), int64(binary.BigEndian.Uint64(src[9:]))
	leased, k := binary.Uvarint(src[17:])
	if k <= 0 || leased > 1<<31-1 {
		return false
	}
	w := newWindow(time.Hour, now)
	elapsed := now.Sub(written)
	left, ok := w.read(src[17+k:], elapsed)
	blocklisted := len(left) == 1 && left[0] == blocklistedMark
	if !ok || len(left) > 0 && !blocklisted {
		return false
	}
	if age := floorDiv(max(0, elapsed-leaseLife-leaseTail), w.slot); age <= windowSlots {
		w.count(-age, int(leased))
	}
	b.refusalWindow = w
	if rest > 0 {
		end := time.UnixMilli(rest)
		// not longer than it was to last, even if the clock was set back
		b.QuarantinedUntil, b.Blocklisted = now.Add(min(end.Sub(now), end.Sub(written))), blocklisted
	}
	b.writtenAt = written
	return true
}

// exhaust uses up the hourly budget, for a state that cannot be read.
func (b *Budget) exhaust(now time.Time) {
	b.refusalWindow = newWindow(time.Hour, now)
	b.refusalWindow.settle(b.Limits.RefusalsPerHour, now)
}
