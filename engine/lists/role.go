package lists

import "strings"

// maxLocal is the longest local part (RFC 5321 section 4.5.3.1.1).
const maxLocal = 64

// Role reports whether local names a function and not a person; doc.go has the rules.
func (s *Set) Role(local string) bool {
	if len(local) > maxLocal {
		return false
	}
	base, _, _ := strings.Cut(local, "+")
	return s.isRoleName(base) || s.isQualifiedRole(base)
}

// isRoleName looks the name up without separators and final digits.
func (s *Set) isRoleName(base string) bool {
	var buf [maxLocal]byte
	name := buf[:0]
	for i := range len(base) {
		if !isSeparator(base[i]) {
			name = append(name, base[i])
		}
	}
	for len(name) > 0 && isDigit(name[len(name)-1]) {
		name = name[:len(name)-1]
	}
	return len(name) > 1 && s.role.hasBytes(name)
}

// isQualifiedRole reports whether every part is a role, a qualifier or a number, and one of them a role.
// Roles of two letters do not count here: they are too often initials.
func (s *Set) isQualifiedRole(base string) bool {
	found := false
	for base != "" {
		part := base
		if i := strings.IndexFunc(base, func(r rune) bool { return r < 0x80 && isSeparator(byte(r)) }); i >= 0 {
			part, base = base[:i], base[i+1:]
		} else {
			base = ""
		}
		name := strings.TrimRight(part, "0123456789")
		switch {
		case name == "": // a number, or nothing between two separators
		case len(name) > 2 && s.role.has(name):
			found = true
		case !s.qualifier.has(name):
			return false
		}
	}
	return found
}

func isSeparator(c byte) bool { return c == '.' || c == '-' || c == '_' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
