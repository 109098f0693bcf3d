package httpd

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"probity/internal/shownname"
)

// maxDepth bounds the nesting of a JSON body.
const maxDepth = 32

// Document is the members of a JSON object. It is strict about the types of the members that are read.
type Document struct {
	members []member
}

// member is one name and its value as it was sent.
type member struct {
	name, raw []byte
}

var (
	errNotUTF8   = Refuse(Malformed, "The body must be UTF-8.")
	errTooDeep   = Refuse(Malformed, "The body is nested more than %d deep: send a flat JSON object.", maxDepth)
	errNotObject = Refuse(Unacceptable, "The body must be a JSON object.")
)

// ParseDocument reads a body that must be one JSON object.
func ParseDocument(b []byte) (*Document, error) { return new(Document).parse(b) }

// parse is ParseDocument into d, whose memory it uses again.
func (d *Document) parse(b []byte) (*Document, error) {
	if !utf8.Valid(b) {
		return nil, errNotUTF8
	}
	d.members = d.members[:0]
	valid := json.Valid(b)
	var name []byte
	// start is of a name or a value of the object; brackets of a body that is not valid need not match
	depth, deepest, start := 0, 0, 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			i += stringEnd(b[i:]) - 1
		case c == '{', c == '[':
			depth++
			if depth == 1 {
				start = i + 1
			}
			deepest = max(deepest, depth)
		case c == ':' && depth == 1 && valid:
			literal := bytes.TrimSpace(b[start:i])
			var plain bool
			name, plain = plainText(literal)
			if !plain {
				var unescaped string
				if json.Unmarshal(literal, &unescaped) != nil {
					panic("BUG: valid JSON has an unreadable name")
				}
				name = []byte(unescaped)
			}
			start = i + 1
		case c == '}', c == ']', c == ',':
			if depth == 1 && valid {
				if value := bytes.TrimSpace(b[start:i]); len(value) > 0 { // not {}
					d.members = append(d.members, member{name, value})
				}
				start = i + 1
			}
			if c != ',' {
				depth--
			}
		}
	}
	switch {
	case deepest > maxDepth:
		return nil, errTooDeep
	case !valid:
		return nil, notJSON(b)
	case bytes.TrimSpace(b)[0] != '{':
		return nil, errNotObject
	}
	return d, nil
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// notJSON says where the JSON of a body breaks.
func notJSON(b []byte) error {
	var v json.RawMessage
	err := json.Unmarshal(b, &v)
	if len(bytes.TrimSpace(b)) == 0 {
		return Refuse(Malformed, "The body is empty: send one JSON object.")
	}
	if bytes.HasPrefix(b, byteOrderMark) {
		return Refuse(Malformed, "The body begins with a byte order mark: send the JSON object without it (RFC 8259, section 8.1).")
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return Refuse(Malformed, "The body is not JSON: it breaks at byte %d. Send one JSON object.", e.Offset)
	}
	return Refuse(Malformed, "The body is not JSON: send one JSON object.")
}

// stringEnd is the length of the string literal that b begins with, or of b if the literal does not end.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// Has reports whether the member was sent.
func (d *Document) Has(name string) bool { return d.get(name) != nil }

// get is the member's value as it was sent, the last of several of one name; nil if it was not sent.
func (d *Document) get(name string) []byte {
	for i := len(d.members) - 1; i >= 0; i-- {
		if string(d.members[i].name) == name {
			return d.members[i].raw
		}
	}
	return nil
}

// plainText is the text of a valid string literal, if it has no escapes.
func plainText(raw []byte) (text []byte, plain bool) {
	if raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// check refuses an object with a member that is not a field or that was sent twice, and so the objects in it.
func (d *Document) check(f *Fields) error {
	for i, m := range d.members {
		if err := checkName(string(m.name), f.Names); err != nil {
			return err
		}
		if slices.ContainsFunc(d.members[:i], func(before member) bool { return bytes.Equal(before.name, m.name) }) {
			return Refuse(Unacceptable, "%s was sent twice: send it once.", m.name)
		}
		nested := f.Nested[string(m.name)]
		if nested == nil {
			continue
		}
		if err := m.check(nested); err != nil {
			return err
		}
	}
	return nil
}

// check checks a member that is an object, or a list of objects.
func (m *member) check(f *Fields) error {
	switch m.raw[0] {
	case '{':
		object, err := ParseDocument(m.raw)
		if err != nil {
			return err
		}
		return object.check(f)
	case '[':
		for i, object := range listOf(m.raw) {
			if object == nil {
				continue // its type is refused when it is read
			}
			if err := object.check(f); err != nil {
				return inList(string(m.name), i, err)
			}
		}
	}
	return nil
}

// listOf returns the objects of a list, nil in place of what is none.
func listOf(raw []byte) []*Document {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil
	}
	list := make([]*Document, len(items))
	for i, item := range items {
		if item[0] == '{' {
			list[i], _ = ParseDocument(item) // the whole body was valid
		}
	}
	return list
}

// inList is a refusal of what is at an index of a list.
func inList(name string, i int, err error) error {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		return err
	}
	at := *r
	at.Detail = name + "[" + strconv.Itoa(i) + "]: " + r.Detail
	return &at
}

// Objects calls visit with each object of the member's list, which has at least one and at most that many. A refusal by
// visit names the object.
func (d *Document) Objects(name string, most int, visit func(*Document) error) error {
	list := listOf(d.get(name))
	if len(list) == 0 || len(list) > most {
		return Refuse(Unacceptable, "%s must be a list of 1 to %d objects.", name, most)
	}
	for i, object := range list {
		err := error(Refuse(Unacceptable, "it must be an object."))
		if object != nil {
			err = visit(object)
		}
		if err != nil {
			return inList(name, i, err)
		}
	}
	return nil
}

// TextList is the member's list of strings; nil if it was not sent.
func (d *Document) TextList(name string) (list []string, err error) {
	raw := d.get(name)
	if raw == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return nil, Refuse(Unacceptable, "%s must be a list of strings.", name)
	}
	list = []string{} // not nil: it was sent
	for _, item := range items {
		text, err := escapedText(item, name+": each of the list")
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

// Text is the member's string; given reports whether it was sent.
func (d *Document) Text(name string) (s string, given bool, err error) {
	raw := d.get(name)
	if raw == nil {
		return "", false, nil
	}
	if b, plain := plainText(raw); plain {
		return string(b), true, nil
	}
	s, err = escapedText(raw, name)
	return s, true, err
}

// escapedText is text for a literal with escapes. (A function of its own, because its s escapes to the heap.)
func escapedText(raw []byte, name string) (s string, err error) {
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", Refuse(Unacceptable, "%s must be a string.", name)
	}
	if strings.ContainsRune(s, utf8.RuneError) && !bytes.Contains(raw, []byte("\uFFFD")) &&
		!bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return "", Refuse(Unacceptable, "%s has half of a surrogate pair: escape both halves.", name)
	}
	return s, nil
}

// RequiredText is the string of a required member.
func (d *Document) RequiredText(name string) (string, error) {
	s, given, err := d.Text(name)
	if err == nil && !given {
		return "", Refuse(Unacceptable, "%s is missing: send it as a string.", name)
	}
	return s, err
}

// ShownText is the member's string, which people will read: at most that many bytes, empty if it was not sent.
func (d *Document) ShownText(name string, most int) (string, error) {
	s, _, err := d.Text(name)
	if err != nil {
		return "", err
	}
	return s, CheckShown(name, s, most)
}

// CheckShown refuses a text that people will read, unless it looks like what it is and has at most that many bytes.
func CheckShown(name, s string, most int) error {
	if err := shownname.Check(s, most); err != nil {
		return Refuse(Unacceptable, "%s %s.", name, err)
	}
	return nil
}

// Boolean is the member's true or false.
func (d *Document) Boolean(name string, fallback bool) (bool, error) {
	switch raw := d.get(name); {
	case raw == nil:
		return fallback, nil
	case string(raw) == "true":
		return true, nil
	case string(raw) == "false":
		return false, nil
	}
	return false, Refuse(Unacceptable, "%s must be true or false.", name)
}

// Number is the member's whole number, however it is written: 5, 5.0 and 0.5e1 are the same in JSON.
func (d *Document) Number(name string, fallback, least, most int64) (int64, error) {
	raw := d.get(name)
	if raw == nil {
		return fallback, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil && raw[0] != '"' {
		var f float64
		f, err = strconv.ParseFloat(string(raw), 64)
		if err == nil && math.Abs(f) <= 1<<53 && f == math.Trunc(f) {
			n = int64(f)
		} else {
			err = strconv.ErrRange
		}
	}
	if err != nil || n < least || n > most {
		return 0, Refuse(Unacceptable, "%s must be a whole number from %d to %d.", name, least, most)
	}
	return n, nil
}

// Object is the member's object; nil if it was not sent.
func (d *Document) Object(name string) (*Document, error) {
	raw := d.get(name)
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, Refuse(Unacceptable, "%s must be an object.", name)
	}
	return ParseDocument(raw)
}
