package smtp

import (
	"strings"

	"probity/engine"
)

// maxPath is the longest path sent: 256 octets with its brackets (RFC 5321 section 4.5.3.1.3), doubled for quoting and
// UTF-8.
const maxPath = 512

// sendable reports whether text cannot break its command line.
func sendable(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return len(text) <= maxPath
}

// isPlain reports whether r is a recipient of letters, digits and common punctuation, which can be sent to any server:
// one check instead of all that follow.
func (r Rcpt) isPlain() bool {
	return r.Local != "" && r.Domain != "" && len(r.Local) <= maxPath && len(r.Domain) <= maxPath && isPlain(r.Local) &&
		isPlain(r.Domain)
}

func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; ('a' > c|0x20 || c|0x20 > 'z') && ('-' > c || c > '9' || c == '/') && c != '_' && c != '+' {
			return false
		}
	}
	return true
}

// sendable reports whether r cannot break its brackets: spaces and brackets are for quoted local parts only.
func (r Rcpt) sendable() bool {
	if r.Local == "" || r.Domain == "" || !sendable(r.Local) || !sendable(r.Domain) ||
		strings.ContainsAny(r.Domain, "<> \"\\@") {
		return false
	}
	return quoted(r.Local) || !strings.ContainsAny(r.Local, "<> \"\\@,:;")
}

// quoted reports whether local is a whole quoted string (RFC 5321 section 4.1.2).
func quoted(local string) bool {
	if len(local) < 2 || local[0] != '"' || local[len(local)-1] != '"' {
		return false
	}
	inner := local[1 : len(local)-1]
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '\\':
			i++
			if i == len(inner) {
				return false
			}
		case '"':
			return false
		}
	}
	return true
}

func ascii(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// quotes reports whether a reply names a recipient, case ignored.
func quotes(r engine.Reply, rcpt Rcpt) bool {
	for _, line := range r.Lines {
		if quotedIn(line, rcpt) {
			return true
		}
	}
	return false
}

// quotedIn finds local@domain as a whole word: neither joann@x.org nor ann@x.org.uk names ann@x.org.
func quotedIn(line string, rcpt Rcpt) bool {
	for from := 0; ; {
		at := strings.IndexByte(line[from:], '@')
		if at < 0 {
			return false
		}
		at += from
		from = at + 1
		begin, end := at-len(rcpt.Local), at+1+len(rcpt.Domain)
		if begin < 0 || end > len(line) || begin > 0 && wordByte(line[begin-1]) ||
			end < len(line) && wordByte(line[end]) && line[end] != '.' {
			continue
		}
		if end+1 < len(line) && line[end] == '.' && wordByte(line[end+1]) {
			continue
		}
		if strings.EqualFold(line[begin:at], rcpt.Local) && strings.EqualFold(line[at+1:end], rcpt.Domain) {
			return true
		}
	}
}

// wordByte reports whether c may belong to an address.
func wordByte(c byte) bool {
	return c >= 0x80 || 'a' <= c|0x20 && c|0x20 <= 'z' || digit(c) || strings.IndexByte("!#$%&*+-/=?^_{|}~.", c) >= 0
}
