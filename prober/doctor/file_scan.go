package doctor

import (
	"strings"

	"probity/engine/tomlfile"
)

// splitAt splits statements before each that begins a part.
func splitAt(all []tomlfile.Statement, begins func(tomlfile.Statement) bool) (parts [][]tomlfile.Statement) {
	for i, s := range all {
		if i == 0 || begins(s) {
			parts = append(parts, nil)
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], s)
	}
	return parts
}

// isHeader reports whether a statement is a header: [provider], [provider.limits], each [provider.rule].
func isHeader(s tomlfile.Statement) bool { return s.Key == "" }

// beginsBlock reports whether a block that stands for itself begins: a provider, a rule, a table.
func beginsBlock(s tomlfile.Statement) bool {
	return isHeader(s) && !strings.HasPrefix(s.Header, "provider.") && !strings.HasPrefix(s.Header, "rule.")
}

// idIn is the id that a block or rule gives itself.
func idIn(data []byte, part []tomlfile.Statement, header string) string {
	for _, s := range part {
		if s.Key != "id" || s.Header != header {
			continue
		}
		var v struct {
			ID string `toml:"id"`
		}
		if s.Decode(data, &v) == nil {
			return v.ID
		}
	}
	return ""
}
