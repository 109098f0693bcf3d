package doctor

import (
	"fmt"
	"slices"
	"strings"

	"probity/engine/tomlfile"
)

// repairBlock inserts a valid line for what is wrong with the head of a provider, or missing from it, so that the other
// mistakes of that provider come to light. It returns false if that is not what is wrong.
func (c *fileCheck) repairBlock(i int, err error) bool {
	for _, key := range [...]string{"name", "mx", "id"} {
		if len(c.blocks[i]) == 0 || c.blocks[i][0].Header != "provider" {
			return false
		}
		if slices.ContainsFunc(c.blocks[i], func(s tomlfile.Statement) bool { return s.Key == key && c.isInserted(s) }) {
			continue
		}
		block := c.addValidLines(c.blocks[i], key)
		left := c.tryBlocks(append(slices.Clone(c.blocks[:i]), block))
		if left == nil || withoutProvider(left) != withoutProvider(err) {
			c.blocks[i] = block
			return true
		}
	}
	return false
}

// addValidLines gives a provider's head a valid line for a key. Another id makes another provider of it, which needs a name and
// an mx of its own.
func (c *fileCheck) addValidLines(block []tomlfile.Statement, key string) []tomlfile.Statement {
	var lines []tomlfile.Statement
	line := func(key, format string, v ...any) {
		at := len(c.data) + 1
		c.data += "\n" + key + " = " + fmt.Sprintf(format, v...)
		c.inserted++
		lines = append(lines, tomlfile.Statement{Line: block[0].Line, Start: at, End: len(c.data), Header: "provider", Key: key, Array: true})
	}
	has := func(key string) bool {
		return slices.ContainsFunc(block, func(s tomlfile.Statement) bool { return s.Header == "provider" && s.Key == key })
	}
	if key == "id" {
		line("id", `"check-%d"`, c.inserted)
	}
	if key == "name" || key == "id" && !has("name") {
		line("name", `"Check"`)
	}
	if key == "mx" || key == "id" && !has("mx") {
		line("mx", `[".check-%d.invalid"]`, c.inserted)
	}
	head := slices.DeleteFunc(slices.Clone(block[1:]), func(s tomlfile.Statement) bool { return s.Header == "provider" && s.Key == key })
	return slices.Concat(block[:1], lines, head)
}

// isInserted reports a line that is not the file's.
func (c *fileCheck) isInserted(s tomlfile.Statement) bool { return s.Start >= c.size }

// withoutProvider is the text of a mistake without the provider's id.
func withoutProvider(err error) string {
	what := err.Error()
	if _, after, found := strings.Cut(what, `": `); found && strings.HasPrefix(what, `provider "`) {
		return after
	}
	return what
}
