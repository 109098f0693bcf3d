package engine

import (
	"errors"
	"fmt"
	"strings"

	"probity/engine/replyline"
)

// The bounds of a reply that is kept. RFC 5321 section 4.5.3.1.5 allows 512 octets a line; some servers send more.
const (
	maxReplyBytes = 64 << 10
	maxReplyLines = 64
	maxReplyLine  = 1000
)

var (
	errNoCode    = errors.New("a reply begins with three digits from 200 to 599 (RFC 5321 section 4.2)")
	errReplySize = fmt.Errorf("a reply of more than %d bytes", maxReplyBytes)
)

// ParseReply reads a reply as it was received, as tolerantly as sessions do (replyline.Parser): lines end with CRLF or
// LF. The last line may have the hyphen of a reply that goes on. Of more than 64 lines the first 63 and the last are
// kept, of each line 1000 bytes.
func ParseReply(stage Stage, raw string) (Reply, error) {
	if len(raw) > maxReplyBytes {
		return Reply{}, errReplySize
	}
	r := Reply{Stage: stage}
	var parser replyline.Parser
	for line := range strings.Lines(strings.TrimSpace(raw)) {
		text, _, ok := replyline.Parse(&parser, strings.TrimRight(line, " \t\r\n"))
		if !ok {
			return Reply{}, errNoCode
		}
		if len(r.Lines) == maxReplyLines {
			r.Lines = r.Lines[:maxReplyLines-1] // the newest line takes the last place
		}
		r.Lines = append(r.Lines, text[:min(len(text), maxReplyLine)])
	}
	r.Code = parser.Code
	if r.Code == 0 {
		return Reply{}, errNoCode
	}
	r.Enhanced = EnhancedOf(r.Lines, r.Code)
	return r, nil
}

// EnhancedOf finds the enhanced status code of a reply (RFC 2034 section 4): at the start of a line, else where
// careless servers put it: "(#5.1.1)", "error: 5.1.1", "550 5.1.1" within the text. Its class must be that of the basic
// code.
func EnhancedOf(lines []string, code int) Enhanced {
	for _, line := range lines {
		if e, n := readEnhanced(line); n > 0 && int(e.Class) == code/100 {
			return e
		}
	}
	for _, line := range lines {
		if e := enhancedWithin(line, code); e.Class != 0 {
			return e
		}
	}
	return Enhanced{}
}

func enhancedWithin(line string, code int) Enhanced {
	for i := 1; i+4 < len(line); i++ {
		if line[i+1] != '.' || int(line[i]-'0') != code/100 || !introduces(line[:i]) {
			continue
		}
		if e, n := readEnhanced(line[i:]); n > 0 {
			return e
		}
	}
	return Enhanced{}
}

// introduces reports text after which a dotted number is a status code, not a version or an address.
func introduces(before string) bool {
	n := len(before)
	switch before[n-1] {
	case '#', '(', '[', '<', '"':
		return true
	case ' ', '-':
		spaced := n >= 2 && strings.IndexByte(":-#", before[n-2]) >= 0
		return spaced || n >= 4 && strings.Trim(before[n-4:n-1], "0123456789") == "" &&
			(n == 4 || !isDigit(before[n-5]) && before[n-5] != '.')
	}
	return false
}

// readEnhanced reads class.subject.detail at the start of s; n is its length, 0 if there is none (RFC 3463 section 2).
func readEnhanced(s string) (e Enhanced, n int) {
	fields := [3]*uint16{&e.Class, &e.Subject, &e.Detail}
	for k, field := range fields {
		digits := 0
		for n < len(s) && isDigit(s[n]) && digits < 3 {
			*field = *field*10 + uint16(s[n]-'0')
			n, digits = n+1, digits+1
		}
		if digits == 0 || n < len(s) && isDigit(s[n]) {
			return Enhanced{}, 0
		}
		if k < 2 {
			if n == len(s) || s[n] != '.' {
				return Enhanced{}, 0
			}
			n++
		}
	}
	if dotted := n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]); dotted ||
		e.Class != 2 && e.Class != 4 && e.Class != 5 {
		return Enhanced{}, 0
	}
	return e, n
}
