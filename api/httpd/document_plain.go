package httpd

// readPlain reads in one pass what nearly all clients send: an object of strings in printable ASCII without escapes, whole numbers
// of few digits, and true or false. For anything else, valid or not, it returns false, and fullDocument reads it.
// FuzzPlainDocument checks that both agree (BenchmarkParseDocument).
func (d *Document) readPlain(b []byte) bool {
	d.members = d.inline[:0]
	b, ok := afterByte(b, '{')
	for ok {
		var m member
		if m.name, b = cutPlain(skipSpace(b)); m.name == nil || m.name[0] != '"' {
			return false
		}
		m.name = m.name[1 : len(m.name)-1]
		if b, ok = afterByte(b, ':'); !ok {
			return false
		}
		if m.raw, b = cutPlain(skipSpace(b)); m.raw == nil {
			return false
		}
		d.members = append(d.members, m)
		rest, more := afterByte(b, ',')
		if !more {
			if b, ok = afterByte(b, '}'); !ok || len(skipSpace(b)) > 0 {
				return false
			}
			return true
		}
		b = rest
	}
	return false
}

// maxPlainDigits is how many digits a plain whole number may have.
const maxPlainDigits = 9

// cutPlain splits off a plain value; nil if b does not begin with one.
func cutPlain(b []byte) (value, rest []byte) {
	n := 0
	switch {
	case len(b) == 0:
		return nil, nil
	case b[0] == '"':
		n = plainLiteral(b)
	case b[0] >= '1' && b[0] <= '9':
		for n < len(b) && n <= maxPlainDigits && b[n] >= '0' && b[n] <= '9' {
			n++
		}
		if n > maxPlainDigits {
			n = 0
		}
	case len(b) > 4 && string(b[:4]) == "true":
		n = 4
	case len(b) > 5 && string(b[:5]) == "false":
		n = 5
	}
	if n == 0 {
		return nil, nil
	}
	return b[:n], b[n:]
}

// plainLiteral is the length of the string literal that b begins with, 0 unless it is plain.
func plainLiteral(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ' || c > '~' || c == '\\':
			return 0
		}
	}
	return 0
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// afterByte returns what follows c, which may have white space before it.
func afterByte(b []byte, c byte) (rest []byte, ok bool) {
	if b = skipSpace(b); len(b) == 0 || b[0] != c {
		return b, false
	}
	return b[1:], true
}
