package replyline

// Parser puts a reply together, line by line. The zero value awaits the first line.
type Parser struct {
	Code int // so far: RFC 5321 section 4.2.1 wants the same in each line; see Parse
}

// Parse reads a line without its end. It returns its text, and whether more lines follow; ok is false for a first line
// without a code. A later line may change the code to a refusal, which then counts: postscreen says 220- before it says
// 521 or 421 (POSTSCREEN_README). It never turns a refusal into an acceptance: such a line is text.
func Parse[T string | []byte](p *Parser, line T) (text T, more, ok bool) {
	l := split(line)
	switch {
	case p.Code == 0 && l.code == 0:
		return line, false, false
	case p.Code == 0, l.code == p.Code:
	case l.exact && l.code >= 400:
	default:
		return line, true, true
	}
	p.Code = l.code
	return l.text, l.more, true
}

// Code reads the code that a line begins with, and whether its separator announces more lines (RFC 5321 section 4.2).
func Code[T string | []byte](line T) (code int, more, ok bool) {
	l := split(line)
	return l.code, l.more, l.code != 0
}

// parts is a line, split at its code. It is exact if the code begins the line and a separator ends it; a tab counts as
// a space.
type parts[T string | []byte] struct {
	code        int // 0 for none
	more, exact bool
	text        T
}

func split[T string | []byte](line T) (l parts[T]) {
	start := 0
	for start < len(line) && (line[start] == ' ' || line[start] == '\t') {
		start++
	}
	rest := line[start:]
	if len(rest) < 3 || rest[0] < '2' || rest[0] > '5' || !digit(rest[1]) || !digit(rest[2]) ||
		len(rest) > 3 && digit(rest[3]) {
		return l
	}
	l.code, l.text = int(rest[0]-'0')*100+int(rest[1]-'0')*10+int(rest[2]-'0'), rest[3:]
	l.exact = start == 0
	if len(l.text) > 0 {
		switch l.text[0] {
		case ' ', '-', '\t':
			l.more, l.text = l.text[0] == '-', l.text[1:]
		default:
			l.exact = false
		}
	}
	return l
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
