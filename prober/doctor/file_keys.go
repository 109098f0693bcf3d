package doctor

import (
	"regexp"
	"slices"
	"strings"

	"probity/engine"
)

// setting is where a key is tried: the headers above it, and good neighbours without which its table would be bad whatever it says.
type setting struct {
	above string
	keys  []neighbour
}

type neighbour struct{ key, line string }

// settingOf is the setting of a table; false for a header that no table has.
func settingOf(header, key string) (setting, bool) {
	head := []neighbour{{"id", `id = "check"`}, {"name", `name = "Check"`}, {"mx", `mx = [".check.invalid"]`}}
	rule := []neighbour{{"id", `id = "check"`}, {"meaning", `meaning = "rate_limited"`}, {"text", `text = ["check of a file"]`}}
	switch key { // each of the two says nothing without the other
	case "action":
		rule = append(rule, neighbour{"for", `for = "1m"`})
	case "for":
		rule = append(rule, neighbour{"action", `action = "slow"`})
	}
	provider := setting{"[[provider]]\n", head}.text("")
	if key == "fleet_sources" {
		head = append(head, neighbour{"tenants", "tenants = true"})
	}
	switch header {
	case "":
		return setting{}, true
	case "defaults", "defaults.limits":
		return setting{above: "[" + header + "]\n"}, true
	case "provider":
		return setting{"[[provider]]\n", head}, true
	case "provider.limits":
		return setting{above: provider + "[provider.limits]\n"}, true
	case "provider.mailbox":
		return setting{provider + "[provider.mailbox]\n", []neighbour{{"domains", `domains = ["check.invalid"]`}}}, true
	case "provider.rule":
		return setting{provider + "[[provider.rule]]\n", rule}, true
	case "rule", "veto":
		return setting{"[[" + header + "]]\n", rule}, true
	}
	return setting{}, false
}

// text is the setting without the neighbour of a key.
func (s setting) text(key string) string {
	var b strings.Builder
	b.WriteString(s.above)
	for _, n := range s.keys {
		if n.key != key {
			b.WriteString(n.line + "\n")
		}
	}
	return b.String()
}

// alone finds the keys that are wrong by themselves. They are taken out of the blocks, and with them the table that would be bad
// without them, so that what is left has only mistakes of several keys together.
func (c *fileCheck) alone() (remarks []Remark) {
	for i, block := range c.blocks {
		for _, table := range tablesOf(block) {
			for _, s := range table {
				what := c.wrong(s)
				if what == "" || len(remarks) == maxMistakes {
					continue
				}
				remarks = append(remarks, Remark{Line: s.line, Key: s.path(), Level: Fail, What: what})
				switch lost := []statement{s}; {
				case needed(s) && s.header == "provider":
					c.blocks[i] = c.heal(c.blocks[i], s.key)
				case needed(s):
					c.blocks[i] = without(c.blocks[i], table)
				default:
					c.blocks[i] = without(c.blocks[i], lost)
				}
			}
		}
	}
	c.blocks = slices.DeleteFunc(c.blocks, func(b []statement) bool { return len(b) == 0 })
	return remarks
}

// wrong says what is wrong with a key by itself; "" where nothing is.
func (c *fileCheck) wrong(s statement) string {
	around, known := settingOf(s.header, s.key)
	if s.key == "" || !known {
		return ""
	}
	if _, err := engine.ParseTable([]byte(around.text(s.key) + c.data[s.start:s.end])); err != nil {
		return brief(err.Error(), s.path())
	}
	return ""
}

// placed are the words at the start of a mistake that say where it is: a remark says so itself.
var placed = regexp.MustCompile(`^((toml: )?(line \d+ ?)?(\(last key "[^"]*"\))?: |(provider|rule|veto) "(generic/)?check[^"]*": |(defaults\.)?(limits|mailbox): )`)

// brief takes out of the words of a mistake what its key says already.
func brief(what, path string) string {
	for at := placed.FindStringIndex(what); at != nil && at[1] > 0; at = placed.FindStringIndex(what) {
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
