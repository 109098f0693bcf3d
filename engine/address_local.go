package engine

import (
	"strings"
	"unicode/utf8"
)

// cutLocal splits an address at its "@": the first one that is not inside a quoted string.
func cutLocal(s string) (typed, rest string, err error) {
	at := strings.IndexByte(s, '@')
	if s[0] == '"' {
		end := quotedEnd(s)
		if end < 0 {
			return "", "", bad(KindQuoted, `the quoted local part does not end; close it with " before the @`)
		}
		if end < len(s) && s[end] != '@' {
			return "", "", bad(KindQuoted, `the closing " must stand right before the @`)
		}
		at = end
	}
	switch {
	case at < 0 || at >= len(s):
		return "", "", bad(KindNoAt, "there is no @; write local@domain")
	case at == 0:
		return "", "", bad(KindLocal, "nothing stands before the @; write local@domain")
	case at > maxLocal:
		return "", "", localTooLong()
	}
	return s[:at], s[at+1:], nil
}

// quotedEnd is the index after the closing quote of the quoted string that s begins with, -1 without one.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// canonicalLocal checks a local part and returns it as RCPT carries it. The result is typed itself when nothing
// changes.
func canonicalLocal(typed string) (string, error) {
	if typed[0] == '"' {
		return canonicalQuoted(typed)
	}
	if err := checkDotString(typed); err != nil {
		return "", err
	}
	local, err := canonicalText(typed)
	if err != nil || local == typed {
		return local, err
	}
	if len(local) > maxLocal {
		return "", localTooLong()
	}
	// NFC can turn a character into an ASCII special (U+037E becomes a semicolon).
	return local, checkDotString(local)
}

// canonicalQuoted reads a quoted string of RFC 5321 section 4.1.2 and drops quotes and backslashes that are not needed.
func canonicalQuoted(typed string) (string, error) {
	content, err := unquote(typed[1 : len(typed)-1])
	if err != nil {
		return "", err
	}
	if content, err = canonicalText(content); err != nil {
		return "", err
	}
	if err := checkUnicode(content); err != nil {
		return "", err
	}
	local := content
	if checkDotString(content) != nil {
		local = quote(content)
	}
	if len(local) > maxLocal {
		return "", localTooLong()
	}
	return local, nil
}

// dottedCarriers are the Japanese carriers that gave out local parts with two dots in a row or a dot before the @ until
// 2009, and deliver to them still. Their senders write them without quotes, against RFC 5321 section 4.1.2.
var dottedCarriers = [...]string{
	"docomo.ne.jp", "ezweb.ne.jp", "au.com", "softbank.ne.jp", "i.softbank.jp", "vodafone.ne.jp", "disney.ne.jp",
}

// hasCarrierDots reports whether a local part is wrong by such dots only, and its domain that of such a carrier or
// below it.
func hasCarrierDots(local, domain string) bool {
	domain = "." + strings.ToLower(domain)
	for _, d := range dottedCarriers {
		if strings.HasSuffix(domain, d) && domain[len(domain)-len(d)-1] == '.' {
			return local[0] != '.' && checkDotString(fixPart(local)) == nil
		}
	}
	return false
}

// unquote accepts qtextSMTP (%d32-33, %d35-91, %d93-126 and, by RFC 6531, UTF-8) and quoted-pairSMTP ("\" %d32-126).
func unquote(s string) (string, error) {
	if !strings.ContainsRune(s, '\\') {
		return s, checkQuotedOctets(s)
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++ // a character follows: quotedEnd checked it
			if s[i] >= 0x80 {
				return "", bad(KindQuoted, "a backslash may stand only before a printable ASCII character; drop it")
			}
		}
		b = append(b, s[i])
	}
	return string(b), checkQuotedOctets(string(b))
}

func checkQuotedOctets(s string) error {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return controlError()
		}
	}
	return nil
}

func quote(content string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(content); i++ {
		if content[i] == '"' || content[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(content[i])
	}
	b.WriteByte('"')
	return b.String()
}

// checkDotString checks the Dot-string of RFC 5321 section 4.1.2 with the atext of RFC 6531 section 3.3.
func checkDotString(s string) error {
	before := byte('.')
	ascii := true
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '.' && before == '.':
			return dotsError()
		case c >= 0x80:
			ascii = false
		case !isAtext(c) && c != '.':
			return localCharError(s, c)
		}
		before = c
	}
	if before == '.' {
		return dotsError()
	}
	if ascii {
		return nil
	}
	return checkUnicode(s)
}

// The atext of RFC 5322 section 3.2.3 as two bit sets.
const (
	atextLow  uint64 = 0xa3ffacfa00000000 // ! # $ % & ' * + - / 0-9 = ?
	atextHigh uint64 = 0x7fffffffc7fffffe // A-Z ^ _ ` a-z { | } ~
)

func isAtext(c byte) bool {
	if c < 64 {
		return atextLow>>c&1 == 1
	}
	return c < 128 && atextHigh>>(c-64)&1 == 1
}

// localCharError says what is wrong with c, the first octet of s that is not allowed.
func localCharError(s string, c byte) error {
	switch {
	case c == ' ' && strings.IndexByte(s, '<') > 0:
		return bad(KindSpace, "there is a name before the address; give only what is between the angle brackets")
	case c == ' ':
		return bad(KindSpace, "there is a space before the @; take it out")
	case c < ' ' || c == 0x7f:
		return controlError()
	case c == '(' || c == ')':
		return bad(KindComment, "comments in parentheses are not part of an address; take them out")
	case c == '"':
		return bad(KindQuoted, "quotes must enclose the whole local part")
	}
	return bad(KindLocal, "the local part has a "+string(rune(c))+", which only a quoted local part may have")
}

func dotsError() error {
	return bad(KindDots, "the local part begins or ends with a dot, or has two in a row; take the extra dot out")
}

func controlError() error {
	return bad(KindControl, "there is a control character in the address; take it out")
}

func localTooLong() error {
	return bad(KindLength, "the local part is longer than 64 octets (RFC 5321 section 4.5.3.1.1)")
}

func encodingError() error {
	return bad(KindEncoding, "the address is not valid UTF-8, or was damaged by a wrong encoding; read its source again as what it is")
}

// runeAt is the first character of s and its length; ok is false for broken UTF-8.
func runeAt(s string) (r rune, n int, ok bool) {
	r, n = utf8.DecodeRuneInString(s)
	return r, n, r != utf8.RuneError || n > 1
}
