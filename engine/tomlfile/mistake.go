package tomlfile

import (
	"errors"
	"fmt"
	"slices"
)

// Mistake is something wrong with a file.
type Mistake struct {
	Line  int    // of the key, or of the header above it where the file has no such key; 0: of no line
	Key   string // dotted, of that line; empty where the file is not TOML
	Part  string // what the mistake is in, as words before Text; may be empty
	Text  string
	Alone bool // wrong whatever the other keys say
}

func (m *Mistake) Error() string {
	if m.Alone && m.Part == "" {
		return fmt.Sprintf("line %d: %s", m.Line, m.Text)
	}
	return m.Part + m.Text
}

// Mistakes are all that were found in a file. As an error they are the first.
type Mistakes []*Mistake

func (m Mistakes) Error() string { return m[0].Error() }

// Add adds an error, unless it is a Mistake of a key that is known to be wrong.
func (m *Mistakes) Add(err error) {
	var one *Mistake
	switch {
	case err == nil:
		return
	case !errors.As(err, &one):
		one = &Mistake{Text: err.Error()}
	}
	if !slices.ContainsFunc(*m, func(other *Mistake) bool {
		return other.Line == one.Line && other.Key == one.Key && (other.Alone || other.Text == one.Text)
	}) {
		*m = append(*m, one)
	}
}

// Err is nil where there are no mistakes, else all of them by line.
func (m Mistakes) Err() error {
	if len(m) == 0 {
		return nil
	}
	slices.SortStableFunc(m, func(a, b *Mistake) int { return a.Line - b.Line })
	return m
}

// Lines are the lines of headers and keys, by their dotted names. The zero value is empty.
type Lines map[string]int

// Note keeps the line of a statement.
func (l *Lines) Note(s Statement) {
	if *l == nil {
		*l = Lines{}
	}
	(*l)[s.Path()] = s.Line
}

// Part is a part of a file. Its mistakes join those of the file.
type Part struct {
	*Mistakes
	Lines  Lines
	Header string // of the part
	Words  string // the start of its mistakes
}

// Wrong adds a mistake of one key alone, or of the part that lacks it.
func (p Part) Wrong(key, format string, args ...any) {
	m := p.mistake(key, fmt.Sprintf(format, args...))
	m.Alone = m.Key != p.Header
	p.Add(m)
}

// Conflict adds a mistake of several keys, at one of them.
func (p Part) Conflict(key, format string, args ...any) {
	p.Add(p.mistake(key, fmt.Sprintf(format, args...)))
}

// mistake is one at the line of a key, or of the part's header where the part has no such key.
func (p Part) mistake(key, text string) *Mistake {
	path := Statement{Header: p.Header, Key: key}.Path()
	line, found := p.Lines[path]
	if !found {
		path = p.Header
		line = p.Lines[path]
	}
	return &Mistake{Line: line, Key: path, Part: p.Words, Text: text}
}

// HasMistake reports whether there is a mistake at one of the part's own lines.
func (p Part) HasMistake() bool {
	return slices.ContainsFunc(*p.Mistakes, func(m *Mistake) bool {
		line, own := p.Lines[m.Key]
		return own && line == m.Line
	})
}
