package lists

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"probity/engine"
	"probity/engine/typo"
)

//go:generate sh -c "cd ../../tools/lists && npm ci && node generate.mjs"

//go:embed lists.bin.zst
var embedded string

// maxText bounds a file of lists, unpacked: far more than what is shipped, and within the offsets of an index.
const maxText = 64 << 20

const version = "probity-lists 2"

// ErrRefused is the sentinel for a file that is broken or implausible.
var ErrRefused = errors.New("lists refused")

// Default returns the embedded lists, which are read once.
func Default() (*Set, error) { return embeddedSet() }

var embeddedSet = sync.OnceValues(func() (*Set, error) { return load(embedded) })

// load reads lists that the generator packed with zstd.
func load(packed string) (*Set, error) {
	text, err := unpack(packed)
	if err != nil {
		return nil, err
	}
	s, err := read(text)
	if err != nil {
		return nil, err
	}
	if err := s.checkMajorDomains(); err != nil {
		return nil, err
	}
	return s, nil
}

func unpack(packed string) (string, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxText),
		zstd.WithDecoderMaxWindow(maxText))
	if err != nil {
		return "", fmt.Errorf("lists: %w", err)
	}
	defer d.Close()
	text, err := d.DecodeAll([]byte(packed), nil)
	if err != nil {
		return "", refuse("not unpacked: %v", err)
	}
	return string(text), nil
}

// read parses a text of the format in doc.go.
func read(text string) (*Set, error) {
	p := parser{text: text}
	if p.next() != version {
		return nil, refuse("the first line is not %q; this version reads no other", version)
	}
	s := &Set{}
	for line := p.next(); line != ""; line = p.next() {
		if hash, ok := strings.CutPrefix(line, "inputs "); ok {
			s.fingerprint = strings.Clone(hash)
			continue
		}
		if strings.HasPrefix(line, "from ") {
			continue
		}
		if err := p.section(s, line); err != nil {
			return nil, err
		}
	}
	if p.at < len(text) {
		return nil, refuse("line %d is blank, and more follows", p.line)
	}
	if s.disposable == nil || s.free == nil || s.alias == nil || s.role == nil || s.qualifier == nil {
		return nil, refuse("a section is missing; it needs [disposable], [free], [alias], [role] and [qualifier]")
	}
	return s, nil
}

// parser walks the lines of a text.
type parser struct {
	text string
	at   int // where the next line begins
	line int
}

// next is the next line, "" at the end. A last line without its newline is not a line.
func (p *parser) next() string {
	n := strings.IndexByte(p.text[p.at:], '\n')
	if n < 0 {
		return ""
	}
	start := p.at
	p.at += n + 1
	p.line++
	return p.text[start : start+n]
}

func (p *parser) section(s *Set, header string) error {
	name, number, _ := strings.Cut(header, " ")
	count, err := strconv.Atoi(number)
	if err != nil || count < 0 || count > len(p.text)-p.at {
		return refuse("line %d: %.40q is not a header of a section", p.line, header)
	}
	var target **index
	valid := isWord
	switch name {
	case "[disposable]":
		target, valid = &s.disposable, isDomain
	case "[free]":
		target, valid = &s.free, isDomain
	case "[alias]":
		target, valid = &s.alias, isDomain
	case "[role]":
		target = &s.role
	case "[qualifier]":
		target = &s.qualifier
	default:
		return refuse("line %d: %.40q is not a section that this version knows", p.line, header)
	}
	if *target != nil {
		return refuse("line %d: section %s comes twice", p.line, name)
	}
	*target = newIndex(p.text, count)
	return p.entries(*target, count, valid)
}

func (p *parser) entries(x *index, count int, valid func(string) bool) error {
	for range count {
		line := p.next()
		if !valid(line) {
			return refuse("line %d: %.40q is not an entry of its section", p.line, line)
		}
		if !x.add(p.at-1-len(line), p.at-1) {
			return refuse("line %d: %.40q comes twice", p.line, line)
		}
	}
	return nil
}

func isDomain(s string) bool {
	d, err := engine.ParseDomain(s)
	return err == nil && d == s
}

func isWord(s string) bool {
	for i := range len(s) {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return len(s) > 1 && len(s) <= 64
}

// checkMajorDomains requires that each major provider's domain is free, and neither disposable nor an alias service.
func (s *Set) checkMajorDomains() error {
	for d := range typo.MajorDomains() {
		switch {
		case s.Disposable(d):
			return refuse("%s is disposable in it, which cannot be", d)
		case s.Alias(d):
			return refuse("%s is an alias service in it, which cannot be", d)
		case !s.Free(d):
			return refuse("%s is not free in it, which cannot be", d)
		}
	}
	return nil
}

// CheckReload refuses a next Set that lost a fifth of any list of s: such a file was probably truncated.
func (s *Set) CheckReload(next *Set) error {
	for _, l := range []struct {
		name     string
		old, new *index
	}{{"disposable", s.disposable, next.disposable}, {"free", s.free, next.free}, {"alias", s.alias, next.alias},
		{"role", s.role, next.role}} {
		if lost := l.old.missingFrom(l.new); lost > 0 && lost*5 >= l.old.n {
			return refuse("it loses %d of the %d entries of the %s list, a fifth or more; the lists in force stay. If that is meant, restart", lost, l.old.n, l.name)
		}
	}
	return nil
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}
