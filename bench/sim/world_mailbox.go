package sim

import "strings"

// Which mailboxes exist. An ordinary local part is a name followed by five
// digits; the digits that follow from the seed, the domain and the name are the
// mailbox that exists, the next ones are the full, the disabled and the moved
// one. Nothing else exists, save role names at company domains.

const (
	digitsAtEnd = 5
	firstNumber = 10_000
	numberCount = 90_000 // 10000 to 99999
)

// Mailbox tells what is true of local@domain. Case is folded; at gmail.com and
// googlemail.com dots and +tags are too. Absent when there is no such domain.
func (w *World) Mailbox(domain, local string) Mailbox {
	d := w.byName[strings.ToLower(domain)]
	if d == nil {
		return Absent
	}
	return w.mailboxOf(d, []byte(local))
}

// mailboxOf is Mailbox for the hot path: no allocation.
func (w *World) mailboxOf(d *Domain, local []byte) Mailbox {
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
			return Absent
		}
		h = hashByte(h, c)
	}
	if digits == 0 {
		return d.role(local)
	}
	if digits != digitsAtEnd || number < firstNumber {
		return Absent
	}
	return stateOf(h, number)
}

// stateOf compares a number with the one that the name's hash asks for.
func stateOf(h uint64, number int) Mailbox {
	offset := (number - firstNumber + numberCount - int(mixBits(h)%numberCount)) % numberCount
	if offset >= int(mailboxes)-1 {
		return Absent
	}
	return Mailbox(offset + 1)
}

// numberFor is the inverse: the number of a name's mailbox in state m. For
// Absent, draw chooses among the numbers that are free by far.
func numberFor(h uint64, m Mailbox, random uint64) int {
	offset := int(m) - 1
	if m == Absent {
		offset = 1000 + int(random%(numberCount-2000))
	}
	return firstNumber + (int(mixBits(h)%numberCount)+offset)%numberCount
}

// role tells whether a company has that role account: three of four do.
func (d *Domain) role(local []byte) Mailbox {
	if d.public || !isRole(local) {
		return Absent
	}
	h := d.key
	for _, c := range local {
		h = hashByte(h, c|0x20)
	}
	if mixBits(h)%4 == 0 {
		return Absent
	}
	return Present
}

// isRole compares with the role names, in any case, without allocation.
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

// equalFold compares ASCII letters; lower is lower case already.
func equalFold(lower string, any []byte) bool {
	for i := range any {
		if any[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// hashByte takes one byte into a hash (FNV-1a).
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
