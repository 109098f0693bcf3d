package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"

	"github.com/alecthomas/kong"
	"github.com/pelletier/go-toml/v2"

	"probity/engine/tomlfile"
)

// configFile has flag values from a configuration file: one flat table, keys as the flags are named. Empty, it is that
// of no file.
type configFile struct {
	name   string
	values map[string]any
	lines  tomlfile.Lines
	given  []string // keys whose values flags have taken
}

// load reads a file. It is called by the parser.
func (c *configFile) load(r io.Reader) (kong.Resolver, error) {
	c.name = "configuration file"
	if file, ok := r.(*os.File); ok {
		c.name = file.Name()
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	statements, err := tomlfile.Statements(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	for _, s := range statements {
		c.lines.Note(s)
	}
	if err := toml.Unmarshal(data, &c.values); err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return c, nil
}

// place is the file, and the line of a key if the file has it alone.
func (c *configFile) place(key string) string {
	if line := c.lines[key]; line > 0 {
		return fmt.Sprintf("%s: line %d", c.name, line)
	}
	return c.name
}

// Validate refuses keys that no command has, so that a misspelled one is not silently ignored.
func (c *configFile) Validate(app *kong.Application) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			known[f.Name] = true
		}
		return next(nil)
	})
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		if !known[key] {
			return fmt.Errorf("%s: no flag is named %q; keys are flag names without their dashes", c.place(key), key)
		}
	}
	return nil
}

// Resolve returns the value of a flag, or nil if the flag's environment variable is set. It decodes the value, so that
// an error names its place.
func (c *configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, env := range flag.Envs {
		if _, ok := os.LookupEnv(env); ok {
			return nil, nil
		}
	}
	value, ok := c.values[flag.Name]
	if !ok {
		return nil, nil
	}
	value = flagText(flag, value)
	if decodeFlag(flag, value) == nil {
		c.given = append(c.given, flag.Name)
		return value, nil
	}
	if err := decodeFlag(flag, fmt.Sprint(value)); err != nil { // the reason that the command line gives
		return nil, fmt.Errorf("%s: %w", c.place(flag.Name), err)
	}
	return nil, fmt.Errorf("%s: %v is not taken; write it in quotes, as on the command line", c.place(flag.Name), value)
}

// flagText is a value as text of the command line, so that the flag's own parser reads it. Two stay as they are: a list
// for a flag that takes one element at a time, and for a flag of one text what is no integer, which would lose
// something: 1.10 is the number 1.1.
func flagText(flag *kong.Flag, value any) any {
	list, isList := value.([]any)
	_, isInteger := value.(int64)
	switch separated := flag.IsSlice() && flag.Tag.Sep != -1; {
	case separated && isList:
		texts := make([]string, 0, len(list)+1)
		for _, element := range list {
			texts = append(texts, fmt.Sprint(element))
		}
		// with a separator at its end: no parser drops an empty last element
		return kong.JoinEscaped(append(texts, ""), flag.Tag.Sep)
	case separated, isInteger:
		return fmt.Sprint(value)
	}
	return value
}

// decodeFlag says whether a flag takes a value, without setting it.
func decodeFlag(flag *kong.Flag, value any) error {
	scan := kong.Scan().PushTyped(value, kong.FlagValueToken)
	return flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: scan},
		reflect.New(flag.Target.Type()).Elem())
}

// places has a line for each flag in the text of an error that the file gives a value: its user never typed that flag.
func (c *configFile) places(text string) (lines string) {
	for _, key := range slices.Compact(slices.Sorted(slices.Values(c.given))) {
		if regexp.MustCompile("--" + key + "\\b[^-]").MatchString(text + "\n") {
			lines += fmt.Sprintf("--%s is set in %s\n", key, c.place(key))
		}
	}
	return lines
}
