package doctor

import (
	"encoding/json"
	"errors"
	"slices"
	"sort"

	"probity/engine"
	"probity/engine/tomlfile"
)

// Remark is a mistake (Fail) or a warning (Warn) about an operator's provider file.
type Remark struct {
	Line     int      `json:"line"` // 1-based; 0 where the remark is about the file as a whole
	Key      string   `json:"key"`  // dotted, as in the file; may be empty
	Severity Severity `json:"level"`
	Message  string   `json:"what"`
	Advice   string   `json:"do,omitempty"`
}

// MarshalJSON writes the former names of keys next to their names, for one release.
func (r Remark) MarshalJSON() ([]byte, error) {
	type former Remark
	return json.Marshal(struct {
		former
		newKeys
	}{former(r), newKeys{r.Severity, r.Message, r.Advice}})
}

// maxMistakes is how many mistakes one check looks for.
const maxMistakes = 20

// maxFile is more than the table takes, so that a larger file is refused before it is split.
const maxFile = 1 << 20

// CheckProviders lays an operator's file over the shipped table. The table is nil where there is a mistake; else the remarks
// are warnings: budgets looser than those shipped, rules that are milder or have no source.
func CheckProviders(shipped *engine.Table, data []byte) (*engine.Table, []Remark) {
	table, err := shipped.Override(data)
	if err != nil {
		return nil, findMistakes(shipped, data, err)
	}
	c := &fileCheck{shipped: shipped, data: string(data), size: len(data)}
	all, _ := tomlfile.Statements(data) // no error: the table was read from it
	c.blocks = splitBlocks(all)
	return table, c.warnings(table)
}

// fileCheck looks for the lines of a file's mistakes.
type fileCheck struct {
	shipped  *engine.Table
	data     string                 // the file, and behind it the inserted lines: see addValidLines
	blocks   [][]tomlfile.Statement // those not yet found wrong
	size     int                    // of the file
	inserted int                    // lines behind it
}

func findMistakes(shipped *engine.Table, data []byte, whole error) []Remark {
	if len(data) > maxFile {
		return []Remark{{Severity: Fail, Message: whole.Error(), Advice: "give a smaller file"}}
	}
	all, err := tomlfile.Statements(data)
	var syntax *tomlfile.Mistake
	if errors.As(err, &syntax) {
		return []Remark{{Line: syntax.Line, Severity: Fail, Message: "not TOML: " + syntax.Text}}
	}
	c := &fileCheck{shipped: shipped, data: string(data), size: len(data), blocks: splitBlocks(all)}
	remarks := c.collectMistakes(c.singleKeyMistakes())
	if len(remarks) == 0 { // a mistake that is in no block
		remarks = []Remark{{Severity: Fail, Message: whole.Error()}}
	}
	return remarks
}

// collectMistakes adds one mistake after the other to those found: what is found wrong is left out of the next try.
func (c *fileCheck) collectMistakes(remarks []Remark) []Remark {
	for len(remarks) < maxMistakes && c.tryBlocks(c.blocks) != nil {
		i := sort.Search(len(c.blocks), func(i int) bool { return c.tryBlocks(c.blocks[:i+1]) != nil })
		if i == len(c.blocks) {
			break
		}
		err := c.tryBlocks(c.blocks[:i+1])
		wrong := c.locateMistake(i, err)
		at := wrong[0]
		remarks = append(remarks, Remark{Line: at.Line, Key: at.Path(), Severity: Fail, Message: stripPlace(err.Error(), at.Path())})
		if len(wrong) < len(c.blocks[i]) || !c.repairBlock(i, err) {
			c.blocks[i] = without(c.blocks[i], wrong)
		}
	}
	sort.SliceStable(remarks, func(i, j int) bool { return remarks[i].Line < remarks[j].Line })
	return remarks
}

// locateMistake finds the smallest part of a block without which the blocks up to it are valid: a key, a table, the block. If
// the block has several mistakes, it is the first key whose absence brings another mistake to light.
func (c *fileCheck) locateMistake(i int, err error) []tomlfile.Statement {
	block := c.blocks[i]
	var other []tomlfile.Statement
	for k, s := range block {
		if s.Key == "" {
			continue
		}
		switch left := c.tryBlocks(append(slices.Clone(c.blocks[:i]), without(block, block[k:k+1]))); {
		case left == nil:
			return block[k : k+1]
		case other == nil && left.Error() != err.Error() && !needed(s):
			other = block[k : k+1]
		}
	}
	if other != nil {
		return other
	}
	tables := splitTables(block)
	for n, table := range tables {
		upTo := block[:slices.Index(block, table[0])+len(table)]
		if got := c.tryBlocks(append(slices.Clone(c.blocks[:i]), upTo)); got == nil || got.Error() != err.Error() {
			continue // another mistake, which is reported when this one is out of the way
		}
		if n > 0 {
			return table
		}
		break // the head, and with it the block
	}
	return block
}

// needed reports a key whose absence may be a mistake of its own.
func needed(s tomlfile.Statement) bool {
	return slices.Contains([]string{"id", "name", "mx", "meaning", "for", "text", "enhanced"}, s.Key)
}

func without(block, part []tomlfile.Statement) []tomlfile.Statement {
	var left []tomlfile.Statement
	for _, s := range block {
		if !slices.Contains(part, s) {
			left = append(left, s)
		}
	}
	return left
}

// tryBlocks reads the file with nothing but these blocks in it.
func (c *fileCheck) tryBlocks(blocks [][]tomlfile.Statement) error {
	text := make([]byte, 0, len(c.data))
	for _, block := range blocks {
		for _, s := range block {
			text = append(append(text, c.data[s.Start:s.End]...), '\n')
		}
	}
	_, err := c.shipped.Override(text)
	return err
}
