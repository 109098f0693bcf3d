package doctor

import (
	"strings"

	"github.com/BurntSushi/toml"
)

// statement is one header or key of a TOML file: the decoder keeps no positions, and people need lines.
type statement struct {
	line       int    // 1-based
	start, end int    // bytes of the file, the line end included
	header     string // of the table it opens or belongs to: "provider.limits"; empty above all headers
	key        string // empty for a header
}

// path is how a statement is called in a remark.
func (s statement) path() string {
	switch {
	case s.key == "":
		return s.header
	case s.header == "":
		return s.key
	}
	return s.header + "." + s.key
}

// statements splits a file that is known to be TOML.
func statements(data string) []statement {
	var out []statement
	header, line := "", 1
	for at := 0; at < len(data); {
		end := statementEnd(data, at)
		text := strings.TrimSpace(data[at:end])
		switch {
		case text == "" || text[0] == '#':
		case text[0] == '[':
			name, _, _ := strings.Cut(text, "]")
			header = plainKey(strings.Trim(name, "[ \t"))
			out = append(out, statement{line: line, start: at, end: end, header: header})
		default:
			name, _, _ := strings.Cut(text, "=")
			out = append(out, statement{line: line, start: at, end: end, header: header, key: plainKey(name)})
		}
		line += strings.Count(data[at:end], "\n")
		at = end
	}
	return out
}

// plainKey drops the quotes and spaces of a dotted key.
func plainKey(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("\"' \t", r) {
			return -1
		}
		return r
	}, s)
}

// statementEnd is the offset behind the line end that ends a statement: brackets and strings may run over lines.
func statementEnd(data string, at int) int {
	depth := 0
	for i := at; i < len(data); {
		switch c := data[i]; c {
		case '\n':
			if i++; depth <= 0 {
				return i
			}
		case '#':
			i += lineLength(data[i:])
		case '"', '\'':
			i += stringLength(data[i:])
		default:
			depth += strings.Count("[{", string(c)) - strings.Count("]}", string(c))
			i++
		}
	}
	return len(data)
}

// lineLength is up to, not over, the line end.
func lineLength(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

// stringLength is the length of the string at the start of s, its quotes included.
func stringLength(s string) int {
	quote := s[:1]
	if strings.HasPrefix(s, quote+quote+quote) {
		quote = s[:3]
	} else if strings.HasPrefix(s, quote+quote) {
		return 2
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote[0] == '"':
			i++
		case strings.HasPrefix(s[i:], quote):
			for i += len(quote); len(quote) == 3 && i < len(s) && s[i] == quote[0]; i++ { // up to two quotes may end the text itself
			}
			return i
		}
	}
	return len(s)
}

// splitBlocks splits statements into blocks that stand for themselves: a provider, a rule, a table, and what is above all headers.
func splitBlocks(all []statement) [][]statement {
	var blocks [][]statement
	for _, s := range all {
		inner := strings.HasPrefix(s.header, "provider.") || strings.HasPrefix(s.header, "rule.")
		if len(blocks) == 0 || s.key == "" && !inner {
			blocks = append(blocks, nil)
		}
		last := len(blocks) - 1
		blocks[last] = append(blocks[last], s)
	}
	return blocks
}

// idIn is the id that a block or rule gives itself.
func idIn(data string, part []statement, header string) string {
	for _, s := range part {
		if s.key != "id" || s.header != header {
			continue
		}
		var v struct {
			ID string `toml:"id"`
		}
		if _, err := toml.Decode(data[s.start:s.end], &v); err == nil {
			return v.ID
		}
	}
	return ""
}

// splitTables splits a block at its headers: [provider], [provider.limits], each [provider.rule].
func splitTables(block []statement) [][]statement {
	var tables [][]statement
	for _, s := range block {
		if len(tables) == 0 || s.key == "" {
			tables = append(tables, nil)
		}
		last := len(tables) - 1
		tables[last] = append(tables[last], s)
	}
	return tables
}
