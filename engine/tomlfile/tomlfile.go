package tomlfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// Statement is one header of a file, or one key with its value.
type Statement struct {
	Line       int    // 1-based
	Start, End int    // bytes of the file, without the line end
	Header     string // dotted, of the table that it opens or belongs to; empty above all headers
	Key        string // dotted; empty for a header
	Array      bool   // the header is one of an array: [[provider]]
}

// Path is the whole dotted key of a statement.
func (s Statement) Path() string {
	switch {
	case s.Key == "":
		return s.Header
	case s.Header == "":
		return s.Key
	}
	return s.Header + "." + s.Key
}

// Decode reads a key into the struct of its table, or into the last of a slice of them, to which a header adds one.
// Without a table the statement is an unknown key.
func (s Statement) Decode(data []byte, table any) error {
	if table == nil {
		return mistake(s.Line, s.Path(), fmt.Sprintf("unknown key %q", s.Path()))
	}
	tables := reflect.ValueOf(table).Elem()
	isSlice := tables.Kind() == reflect.Slice
	switch {
	case s.Key == "" && s.Array != isSlice:
		want := "[" + s.Header + "]"
		if isSlice {
			want = "[" + want + "]"
		}
		return mistake(s.Line, s.Path(), fmt.Sprintf("%s: %s is expected", s.Header, want))
	case s.Key == "" && isSlice:
		tables.Set(reflect.Append(tables, reflect.Zero(tables.Type().Elem())))
		return nil
	case s.Key == "", isSlice && tables.Len() == 0: // its header was a mistake
		return nil
	case isSlice:
		table = tables.Index(tables.Len() - 1).Addr().Interface()
	}
	return decode(data[s.Start:s.End], table, s)
}

// Statements splits a file. An error is a *Mistake, about TOML alone.
func Statements(data []byte) ([]Statement, error) {
	if err := checkSyntax(data); err != nil {
		return nil, err
	}
	var all []Statement
	var header Statement // the last one
	line := 1
	counted := 0 // bytes whose line ends are in line
	walk(data, func(e *unstable.Node, key string, first, last unstable.Range) {
		s := Statement{Header: header.Header, Array: header.Array, Key: key, Start: int(e.Raw.Offset),
			End: int(e.Raw.Offset + e.Raw.Length)}
		if e.Kind != unstable.KeyValue {
			header = headerAt(data, key, int(first.Offset), int(last.Offset+last.Length))
			if e.Kind == unstable.ArrayTable { // in double brackets
				header.Array = true
				header.Start--
				header.End++
			}
			s = header
		}
		line += bytes.Count(data[counted:s.Start], []byte("\n"))
		counted = s.Start
		s.Line = line
		all = append(all, s)
	})
	return all, nil
}

// headerAt is the header of a table whose key has these bytes of the file.
func headerAt(data []byte, key string, start, end int) Statement {
	return Statement{Header: key, Start: bytes.LastIndexByte(data[:start], '['),
		End: end + bytes.IndexByte(data[end:], ']') + 1}
}

// walk goes over the headers and keys of a valid file. The key is dotted, with the ranges of its first and last part.
func walk(data []byte, visit func(e *unstable.Node, key string, first, last unstable.Range)) {
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		var key []string
		var first, last unstable.Range
		for it := e.Key(); it.Next(); {
			last = it.Node().Raw
			if len(key) == 0 {
				first = last
			}
			key = append(key, string(it.Node().Data))
		}
		visit(e, strings.Join(key, "."), first, last)
	}
}

// LineOf is the line of the first string under a header that equals text, or else of the first one anywhere; 0 for
// none.
func LineOf(data []byte, header, text string) (line int) {
	under, found := "", false
	walk(data, func(e *unstable.Node, key string, _, _ unstable.Range) {
		if e.Kind != unstable.KeyValue {
			under = key
			return
		}
		values := e.Value().Children()
		for !found && values.Next() {
			if v := values.Node(); v.Kind == unstable.String && string(v.Data) == text {
				found = under == header
				if found || line == 0 {
					line = 1 + bytes.Count(data[:v.Raw.Offset], []byte("\n"))
				}
			}
		}
	})
	return line
}

// Decode reads a file into a value. An error is a *Mistake.
func Decode(data []byte, into any) error {
	if err := checkSyntax(data); err != nil {
		return err
	}
	return decode(data, into, Statement{Line: 1})
}

func mistake(line int, key, text string) error {
	return &Mistake{Line: line, Key: key, Text: text, Alone: true}
}

func checkSyntax(data []byte) error {
	err := toml.Unmarshal(data, new(map[string]any))
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, _ := wrong.Position()
		return mistake(line, "", strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return err
}

// decode reads valid TOML: a file, or a statement of one.
func decode(data []byte, into any, s Statement) error {
	err := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields().EnableUnmarshalerInterface().Decode(into)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		wrong = &unknown.Errors[0]
	case !errors.As(err, &wrong): // of UnmarshalTOML
		return mistake(s.Line, s.Path(), strings.TrimPrefix(err.Error(), "toml: "))
	}
	s.Key = strings.Join(wrong.Key(), ".")
	row, _ := wrong.Position()
	s.Line += row - 1
	text := fmt.Sprintf("unknown key %q", s.Path())
	if unknown == nil {
		text = s.Path() + ": " + mismatch(data, reflect.TypeOf(into), wrong.Key())
	}
	return mistake(s.Line, s.Path(), text)
}

// mismatch says what a key takes, by the type of its table, and what the file has.
func mismatch(data []byte, want reflect.Type, key []string) string {
	var file map[string]any
	_ = toml.Unmarshal(data, &file)
	var found any = file
	for _, name := range key {
		table, _ := found.(map[string]any)
		found = table[name]
		want = fieldType(want, name)
	}
	if table, ok := found.(map[string]any); ok && describeType(want) == "a table" { // written in one line
		for _, name := range slices.Sorted(maps.Keys(table)) {
			alone, _ := toml.Marshal(map[string]any{name: table[name]})
			if toml.Unmarshal(alone, reflect.New(want).Interface()) != nil {
				return name + ": " + mismatch(alone, want, []string{name})
			}
		}
	}
	return describeType(want) + " is expected, found " + describeValue(found)
}

// fieldType is the type of a table's key.
func fieldType(table reflect.Type, key string) reflect.Type {
	for table.Kind() == reflect.Pointer {
		table = table.Elem()
	}
	if table.Kind() != reflect.Struct {
		return table
	}
	for _, field := range reflect.VisibleFields(table) {
		if strings.EqualFold(field.Tag.Get("toml"), key) {
			return field.Type
		}
	}
	return table
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "a text in quotes"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "a list of texts in quotes"
		}
		return "a list of tables"
	}
	return "a table"
}

func describeValue(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the text %.40q", v)
	case map[string]any:
		return "a table"
	case []any:
		for _, item := range v {
			if _, ok := item.(string); !ok {
				return "a list with " + describeValue(item)
			}
		}
		return "a list"
	}
	return fmt.Sprint(v)
}
