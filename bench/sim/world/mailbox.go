package world

import (
	"strings"

	"probity/bench/sim/persona"
)

// Which mailboxes exist. An ordinary local part is a name and five digits. The
// number computed from seed, domain and name is the mailbox that exists; the
// next numbers are the full, the disabled and the moved one. Nothing else exists,
// except role names at company domains.

const (
	digitsAtEnd = 5
	firstNumber = 10_000
	numberCount = 90_000 // 10000 to 99999
)

// Mailbox is the state of local@domain. Case is ignored; at gmail.com and
// googlemail.com also dots and +tags. Absent if there is no such domain.
func (w *World) Mailbox(domain, local string) persona.Mailbox {
	d := w.byName[strings.ToLower(domain)]
	if d == nil {
		return persona.Absent
	}
	return w.MailboxOf(d, []byte(local))
}

// MailboxOf is Mailbox for the hot path: no allocation.
func (w *World) MailboxOf(d *Domain, local []byte) persona.Mailbox {
	h, digits, number := d.key, 0, 0
	for _, c := range local {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case d.foldsDots && c == '.':
			continue
		case c >= '0' && c <= '9':
			digits, number = digits+1, number*10+int(c-'0')
			continue
		}
		if d.foldsDots && c == '+' {
			break
		}
		if digits > 0 || d.foldsDots && (c < 'a' || c > 'z') {
			return persona.Absent
		}
		h = hashByte(h, c)
	}
	if digits == 0 {
		return d.role(local)
	}
	if digits != digitsAtEnd || number < firstNumber {
		return persona.Absent
	}
	return stateOf(h, number)
}

// stateOf returns the state of the mailbox with this number, given the name's hash.
func stateOf(h uint64, number int) persona.Mailbox {
	offset := (number - firstNumber + numberCount - int(mixBits(h)%numberCount)) % numberCount
	if offset >= int(persona.MailboxStates)-1 {
		return persona.Absent
	}
	return persona.Mailbox(offset + 1)
}

// numberFor is the inverse: the number of a name's mailbox in state m. For
// Absent, random chooses a number far from those that exist.
func numberFor(h uint64, m persona.Mailbox, random uint64) int {
	offset := int(m) - 1
	if m == persona.Absent {
		offset = 1000 + int(random%(numberCount-2000))
	}
	return firstNumber + (int(mixBits(h)%numberCount)+offset)%numberCount
}

// role returns the state of a role account: three of four companies have it.
func (d *Domain) role(local []byte) persona.Mailbox {
	if d.public || !isRole(local) {
		return persona.Absent
	}
	h := d.key
	for _, c := range local {
		h = hashByte(h, c|0x20)
	}
	if mixBits(h)%4 == 0 {
		return persona.Absent
	}
	return persona.Present
}

// isRole reports whether local is a role name, in any case, without allocation.
func isRole(local []byte) bool {
	if len(local) < 4 || len(local) > 10 {
		return false
	}
	for _, name := range roleNames {
		if len(name) == len(local) && equalFold(name, local) {
			return true
		}
	}
	return false
}

// equalFold compares ASCII letters in any case; lower must be lower case.
func equalFold(lower string, name []byte) bool {
	for i := range name {
		if name[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// hashByte adds one byte to a hash (FNV-1a).
func hashByte(h uint64, c byte) uint64 { return (h ^ uint64(c)) * 0x100000001b3 }

func hashString(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = hashByte(h, s[i])
	}
	return h
}

// mixBits spreads every bit of x over the whole word (the finaliser of SplitMix64).
func mixBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
