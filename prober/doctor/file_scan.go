package doctor

import (
	"strings"

	"probity/engine/tomlfile"
)

// splitBlocks splits statements into blocks that stand for themselves: a provider, a rule, a table, and what is above
// all headers.
func splitBlocks(all []tomlfile.Statement) [][]tomlfile.Statement {
	var blocks [][]tomlfile.Statement
	for _, s := range all {
		inner := strings.HasPrefix(s.Header, "provider.") || strings.HasPrefix(s.Header, "rule.")
		if len(blocks) == 0 || s.Key == "" && !inner {
			blocks = append(blocks, nil)
		}
		last := len(blocks) - 1
		blocks[last] = append(blocks[last], s)
	}
	return blocks
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

// splitTables splits a block at its headers: [provider], [provider.limits], each [provider.rule].
func splitTables(block []tomlfile.Statement) [][]tomlfile.Statement {
	var tables [][]tomlfile.Statement
	for _, s := range block {
		if len(tables) == 0 || s.Key == "" {
			tables = append(tables, nil)
		}
		last := len(tables) - 1
		tables[last] = append(tables[last], s)
	}
	return tables
}
