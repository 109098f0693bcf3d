package smtpd

import "bytes"

// verb is an SMTP command word.
type verb uint8

const (
	verbNone verb = iota // not a command that we know
	verbHelo
	verbEhlo
	verbMail
	verbRcpt
	verbData
	verbRset
	verbNoop
	verbQuit
	verbVrfy
	verbHelp
	verbStartTLS
)

// command is one parsed command line. Its slices are parts of the line and
// valid as long as that is.
type command struct {
	verb verb
	arg  []byte // what follows the verb, trimmed
	// For MAIL and RCPT. local and domain are the address between the brackets
	// without a source route (RFC 5321 appendix C); both are empty for "<>".
	wellFormed    bool
	path          []byte
	local, domain []byte
	params        []byte
}

// parse parses one line without its line end. Verbs are not case-sensitive
// (RFC 5321 section 2.4).
func parse(line []byte) command {
	line = bytes.TrimRight(line, " \t")
	word, arg, _ := bytes.Cut(line, []byte{' '})
	c := command{verb: verbOf(word), arg: bytes.TrimSpace(arg)}
	switch c.verb {
	case verbMail:
		c.readPath("from:")
	case verbRcpt:
		c.readPath("to:")
	}
	return c
}

// verbOf returns the verb of a command word. The four letters are compared as one
// number, in lower case, as this runs for every command.
func verbOf(word []byte) verb {
	if len(word) != 4 {
		if len(word) == 8 && bytes.EqualFold(word, []byte("starttls")) {
			return verbStartTLS
		}
		return verbNone
	}
	switch string(lower4(word)) {
	case "rcpt":
		return verbRcpt
	case "mail":
		return verbMail
	case "rset":
		return verbRset
	case "quit":
		return verbQuit
	case "ehlo":
		return verbEhlo
	case "helo":
		return verbHelo
	case "noop":
		return verbNoop
	case "data":
		return verbData
	case "vrfy":
		return verbVrfy
	case "help":
		return verbHelp
	}
	return verbNone
}

// lower4 folds four letters and leaves other bytes unchanged.
func lower4(word []byte) []byte {
	var out [4]byte
	for i := range out {
		c := word[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		out[i] = c
	}
	return out[:]
}

// readPath parses "FROM:<path> params" or "TO:<path> params". A space after the
// colon is accepted, as by most servers.
func (c *command) readPath(keyword string) {
	arg := c.arg
	if len(arg) < len(keyword) || !bytes.EqualFold(arg[:len(keyword)], []byte(keyword)) {
		return
	}
	arg = bytes.TrimLeft(arg[len(keyword):], " ")
	if len(arg) < 2 || arg[0] != '<' {
		return
	}
	end := endOfPath(arg)
	if end < 0 {
		return
	}
	path := arg[1:end]
	if len(path) > 0 && path[0] == '@' {
		colon := bytes.IndexByte(path, ':')
		path = path[colon+1:]
	}
	c.params = bytes.TrimSpace(arg[end+1:])
	c.path = path
	c.splitPath(path)
}

// endOfPath finds the closing bracket outside quotes, or -1.
func endOfPath(arg []byte) int {
	quoted := false
	for i := 1; i < len(arg); i++ {
		switch arg[i] {
		case '\\':
			if quoted {
				i++
			}
		case '"':
			quoted = !quoted
		case '>':
			if !quoted {
				return i
			}
		}
	}
	return -1
}

// splitPath splits the mailbox at its last "@": a domain has none.
func (c *command) splitPath(path []byte) {
	if len(path) == 0 {
		c.wellFormed = true
		return
	}
	at := bytes.LastIndexByte(path, '@')
	if at <= 0 || at == len(path)-1 {
		return
	}
	c.local, c.domain = path[:at], path[at+1:]
	if c.local[0] == '"' {
		c.wellFormed = len(c.local) > 2 && c.local[at-1] == '"'
		return
	}
	c.wellFormed = bytes.IndexByte(path, ' ') < 0
}

// hasParam reports whether params contains keyword, in any case.
func hasParam(params []byte, keyword string) bool {
	for len(params) > 0 {
		word, rest, _ := bytes.Cut(params, []byte{' '})
		if bytes.EqualFold(word, []byte(keyword)) {
			return true
		}
		params = rest
	}
	return false
}

// asciiOnly reports whether b has no byte above 127.
func asciiOnly(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
