package doctor

import (
	"errors"
	"fmt"
	"strings"

	"probity/engine"
	"probity/engine/tomlfile"
)

// Remark is a mistake (Fail) or a warning (Warn) about an operator's provider file.
type Remark struct {
	Line     int      `json:"line"` // 1-based; 0 where the remark is about the file as a whole
	Key      string   `json:"key"`  // dotted, as in the file; may be empty
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	Advice   string   `json:"advice,omitempty"`
}

// maxMistakes is how many mistakes one check reports.
const maxMistakes = 20

// CheckProviders lays an operator's file over the shipped table. The table is nil where there is a mistake; else the
// remarks are warnings: budgets looser than those shipped, rules that are milder or have no source.
func CheckProviders(shipped *engine.Table, data []byte) (*engine.Table, []Remark) {
	table, err := shipped.Override(data)
	if err != nil {
		return nil, mistakeRemarks(err)
	}
	c := &fileCheck{shipped: shipped, data: data}
	all, _ := tomlfile.Statements(data) // no error: the table was read from it
	c.blocks = splitAt(all, beginsBlock)
	return table, c.warnings(table)
}

// fileCheck looks for what a valid file allows more than the shipped table.
type fileCheck struct {
	shipped *engine.Table
	data    []byte
	blocks  [][]tomlfile.Statement
}

func mistakeRemarks(err error) []Remark {
	var mistakes tomlfile.Mistakes
	if !errors.As(err, &mistakes) {
		return []Remark{{Severity: Fail, Message: err.Error()}}
	}
	var remarks []Remark
	for _, m := range mistakes[:min(len(mistakes), maxMistakes)] {
		text := m.Text
		switch {
		case !m.Alone:
			text = m.Part + text
		case m.Key == "":
			text = "not TOML: " + text
		}
		remarks = append(remarks, Remark{Line: m.Line, Key: m.Key, Severity: Fail, Message: withoutKey(text, m.Key)})
	}
	return remarks
}

// withoutKey takes out of the text of a mistake what its key already says.
func withoutKey(text, path string) string {
	if text == fmt.Sprintf("unknown key %q", path) {
		return "unknown key"
	}
	key := path[strings.LastIndexByte(path, '.')+1:]
	for _, said := range [...]string{path + ": ", "defaults.limits: ", "limits: ", "mailbox: ", key + ": ",
		key + " = "} {
		text = strings.TrimPrefix(text, said)
	}
	if value, quoted := strings.CutPrefix(text, key+` "`); quoted {
		text = `"` + value
	}
	return text
}
