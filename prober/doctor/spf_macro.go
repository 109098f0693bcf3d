package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// spfMacro is %{letter digits r delimiters} (RFC 7208 section 7.1).
type spfMacro struct {
	letter  byte
	escape  bool // an upper-case letter: URL-escaped
	keep    int  // labels kept from the right; 0 for all
	reverse bool
	delims  string
}

// spfPiece is a macro-string up to its first macro.
type spfPiece struct {
	text  string   // before the macro, with the escapes %%, %_ and %- replaced
	macro spfMacro // its letter is 0 where the string ends without one
	rest  string   // behind the macro
}

// nextMacro takes the first piece of s. It is not ok for bad syntax.
func nextMacro(s string) (p spfPiece, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] < '!' || s[i] > '~' {
			return p, false
		}
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			return p, false
		}
		switch s[i] {
		case '%':
			b.WriteByte('%')
		case '_':
			b.WriteByte(' ')
		case '-':
			b.WriteString("%20")
		case '{':
			body, rest, closed := strings.Cut(s[i+1:], "}")
			m, good := parseMacro(body)
			return spfPiece{b.String(), m, rest}, closed && good
		default:
			return p, false
		}
	}
	return spfPiece{text: b.String()}, true
}

func parseMacro(s string) (m spfMacro, ok bool) {
	if s == "" || !strings.Contains("slodiphcrtv", strings.ToLower(s[:1])) {
		return m, false
	}
	m.letter, m.escape = strings.ToLower(s[:1])[0], s[0] < 'a'
	s = s[1:]
	digits := s[:len(s)-len(strings.TrimLeft(s, "0123456789"))]
	if digits != "" {
		n, err := strconv.Atoi(digits)
		if err != nil || n == 0 {
			return m, false
		}
		m.keep = n
	}
	s = s[len(digits):]
	if s != "" && (s[0] == 'r' || s[0] == 'R') {
		m.reverse, s = true, s[1:]
	}
	m.delims = s
	return m, strings.Trim(s, ".-+,/_=") == ""
}

// validMacros reports a macro-string without syntax errors.
func validMacros(s string) bool {
	for {
		p, ok := nextMacro(s)
		if !ok || strings.IndexByte("crt", p.macro.letter) >= 0 {
			return false // c, r and t belong to explanations only (section 7.2)
		}
		if p.macro.letter == 0 {
			return true
		}
		s = p.rest
	}
}

// expand makes a name of a domain-spec; one too long loses labels from the left (RFC 7208 section 7.3).
func (c *spfCheck) expand(ctx context.Context, spec, domain string) (string, *spfError) {
	var b strings.Builder
	for {
		p, ok := nextMacro(spec)
		if !ok {
			return "", permError("bad macro in " + spec)
		}
		b.WriteString(p.text)
		if p.macro.letter == 0 {
			break
		}
		b.WriteString(p.macro.transform(c.value(ctx, p.macro.letter, domain)))
		spec = p.rest
	}
	name := strings.ToLower(strings.TrimSuffix(b.String(), "."))
	for len(name) > 253 {
		_, shorter, cut := strings.Cut(name, ".")
		if !cut {
			return "", permError("a name of more than 253 bytes")
		}
		name = shorter
	}
	return name, nil
}

// value is what a macro letter stands for (RFC 7208 section 7.2).
func (c *spfCheck) value(ctx context.Context, letter byte, domain string) string {
	switch letter {
	case 's':
		return c.sender.Local() + "@" + c.sender.Domain()
	case 'l':
		return c.sender.Local()
	case 'o':
		return c.sender.Domain()
	case 'd':
		return domain
	case 'i':
		return dotted(c.ip)
	case 'p':
		return c.clientName(ctx, domain)
	case 'v':
		if c.ip.Is6() {
			return "ip6"
		}
		return "in-addr"
	}
	return c.ehlo // h
}

// clientName is the validated name of the client: best the domain itself, then one below it, then any (section 7.3).
func (c *spfCheck) clientName(ctx context.Context, domain string) string {
	names := c.validated(ctx)
	if slices.Contains(names, domain) {
		return domain
	}
	for _, n := range names {
		if strings.HasSuffix(n, "."+domain) {
			return n
		}
	}
	if len(names) > 0 {
		return names[0]
	}
	return "unknown"
}

// dotted writes IPv4 as it is and IPv6 as nibbles with dots between.
func dotted(ip netip.Addr) string {
	if ip.Is4() {
		return ip.String()
	}
	var nibbles []string
	for _, octet := range ip.As16() {
		nibbles = append(nibbles, fmt.Sprintf("%x", octet>>4), fmt.Sprintf("%x", octet&15))
	}
	return strings.Join(nibbles, ".")
}

// transform splits a value, turns it, keeps its right part and joins it with dots.
func (m spfMacro) transform(value string) string {
	delims := m.delims
	if delims == "" {
		delims = "."
	}
	parts := []string{}
	for {
		i := strings.IndexAny(value, delims)
		if i < 0 {
			parts = append(parts, value)
			break
		}
		parts, value = append(parts, value[:i]), value[i+1:]
	}
	if m.reverse {
		slices.Reverse(parts)
	}
	if m.keep > 0 && m.keep < len(parts) {
		parts = parts[len(parts)-m.keep:]
	}
	out := strings.Join(parts, ".")
	if m.escape {
		return urlEscape(out)
	}
	return out
}

// urlEscape escapes all but the unreserved bytes (RFC 3986 section 2.3).
func urlEscape(s string) string {
	const unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(unreserved, s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
