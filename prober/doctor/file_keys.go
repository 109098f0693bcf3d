package doctor

import (
	"regexp"
	"slices"
	"strings"

	"probity/engine"
	"probity/engine/tomlfile"
)

// keyContext is where a key is tried: the headers above it, and the valid keys without which its table would be invalid
// whatever it says.
type keyContext struct {
	headers string
	keys    []neighbour
}

type neighbour struct{ key, line string }

// contextOf is the context of a key in a table; false for a header that no table has.
func contextOf(header, key string) (keyContext, bool) {
	head := []neighbour{{"id", `id = "check"`}, {"name", `name = "Check"`}, {"mx", `mx = [".check.invalid"]`}}
	rule := []neighbour{{"id", `id = "check"`}, {"meaning", `meaning = "rate_limited"`}, {"text", `text = ["check of a file"]`}}
	switch key { // each of the two says nothing without the other
	case "action":
		rule = append(rule, neighbour{"for", `for = "1m"`})
	case "for":
		rule = append(rule, neighbour{"action", `action = "slow"`})
	}
	provider := keyContext{"[[provider]]\n", head}.text("")
	if key == "fleet_sources" {
		head = append(head, neighbour{"tenants", "tenants = true"})
	}
	switch header {
	case "":
		return keyContext{}, true
	case "defaults", "defaults.limits":
		return keyContext{headers: "[" + header + "]\n"}, true
	case "provider":
		return keyContext{"[[provider]]\n", head}, true
	case "provider.limits":
		return keyContext{headers: provider + "[provider.limits]\n"}, true
	case "provider.mailbox":
		return keyContext{provider + "[provider.mailbox]\n", []neighbour{{"domains", `domains = ["check.invalid"]`}}}, true
	case "provider.rule":
		return keyContext{provider + "[[provider.rule]]\n", rule}, true
	case "rule", "veto":
		return keyContext{"[[" + header + "]]\n", rule}, true
	}
	return keyContext{}, false
}

// text is the context without the neighbour of that key.
func (kc keyContext) text(key string) string {
	var b strings.Builder
	b.WriteString(kc.headers)
	for _, n := range kc.keys {
		if n.key != key {
			b.WriteString(n.line + "\n")
		}
	}
	return b.String()
}

// singleKeyMistakes finds the keys that are wrong by themselves. They are taken out of the blocks, and with them each table
// that would be invalid without them, so that what is left has only mistakes of several keys together.
func (c *fileCheck) singleKeyMistakes() (remarks []Remark) {
	for i, block := range c.blocks {
		for _, table := range splitTables(block) {
			for _, s := range table {
				what := c.checkKey(s)
				if what == "" || len(remarks) == maxMistakes {
					continue
				}
				remarks = append(remarks, Remark{Line: s.Line, Key: s.Path(), Severity: Fail, Message: what})
				switch lost := []tomlfile.Statement{s}; {
				case needed(s) && s.Header == "provider":
					c.blocks[i] = c.addValidLines(c.blocks[i], s.Key)
				case needed(s):
					c.blocks[i] = without(c.blocks[i], table)
				default:
					c.blocks[i] = without(c.blocks[i], lost)
				}
			}
		}
	}
	c.blocks = slices.DeleteFunc(c.blocks, func(b []tomlfile.Statement) bool { return len(b) == 0 })
	return remarks
}

// checkKey says what is wrong with a key by itself; "" where nothing is.
func (c *fileCheck) checkKey(s tomlfile.Statement) string {
	tableContext, known := contextOf(s.Header, s.Key)
	if s.Key == "" || !known {
		return ""
	}
	if _, err := engine.ParseTable([]byte(tableContext.text(s.Key) + c.data[s.Start:s.End])); err != nil {
		return stripPlace(err.Error(), s.Path())
	}
	return ""
}

// placePrefix matches the start of a mistake's text that says where it is: a remark has that itself.
var placePrefix = regexp.MustCompile(`^((toml: )?(line \d+ ?)?(\(last key "[^"]*"\))?: |(provider|rule|veto) "(generic/)?check[^"]*": |(defaults\.)?(limits|mailbox): )`)

// stripPlace takes out of the text of a mistake what its key already says.
func stripPlace(what, path string) string {
	for at := placePrefix.FindStringIndex(what); at != nil && at[1] > 0; at = placePrefix.FindStringIndex(what) {
		what = what[at[1]:]
	}
	key := path[strings.LastIndexByte(path, '.')+1:]
	for _, said := range [...]string{path + ": ", key + ": ", key + " = "} {
		what = strings.TrimPrefix(what, said)
	}
	if value, quoted := strings.CutPrefix(what, key+` "`); quoted {
		what = `"` + value
	}
	if what == `unknown key "`+path+`"` {
		return "unknown key"
	}
	return what
}
