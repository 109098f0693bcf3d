package facade

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"probity/api/httpd"
)

// The longest time of a single verification, in seconds.
const maxTimeout = 30

var (
	errUnreadable = httpd.Refuse(httpd.Malformed, "The request could not be read: send a query, a JSON object or a form, in UTF-8.")
	errTooLong    = httpd.Refuse(httpd.Malformed, "The body is over %d bytes: send less.", httpd.MaxJSON)
)

// parameters are what a request names. Those that no façade reads are ignored, as the vendors ignore them.
type parameters map[string]parameter

// parameter is the value of one.
type parameter struct {
	text string          // empty of an object or an array
	raw  json.RawMessage // as it was sent in JSON; nil of a query or a form
}

// literal returns the value for a JSON document, as it was sent.
func (p parameter) literal() any {
	if p.raw != nil {
		return p.raw
	}
	return p.text
}

// parse reads parameters from a query and a body, which is a JSON object or a form. The body's win.
func parse(query, contentType string, body []byte) (parameters, error) {
	if len(body) > httpd.MaxJSON {
		return nil, errTooLong
	}
	p := make(parameters)
	if err := p.addForm(query); err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return p, nil
	case kind == "application/x-www-form-urlencoded" && body[0] != '{':
		return p, p.addForm(string(body))
	case !utf8.Valid(body):
		return nil, errUnreadable
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return nil, errUnreadable
	}
	for name, raw := range members {
		value := parameter{raw: raw}
		switch raw[0] {
		case 'n': // null: as if it was not sent
			delete(p, name)
			continue
		case '"':
			_ = json.Unmarshal(raw, &value.text) // it is a valid literal
		case '{', '[':
		default:
			value.text = string(raw)
		}
		p[name] = value
	}
	return p, nil
}

func (p parameters) addForm(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errUnreadable
	}
	for name, all := range values {
		if !utf8.ValidString(all[0]) {
			return errUnreadable
		}
		p[name] = parameter{text: all[0]}
	}
	return nil
}

// seconds returns the parameter timeout, which counts units, as whole seconds that a single verification may take. It
// is 0 without one.
func (p parameters) seconds(unit time.Duration) int64 {
	n, err := strconv.ParseFloat(p["timeout"].text, 64)
	if err != nil || unit == 0 || !(n > 0) {
		return 0
	}
	return int64(min(max(n*unit.Seconds(), 1), maxTimeout))
}

// keyOf returns the key of a request: the parameter of that name, or the header, whatever its scheme. An empty key is
// one that is missing; several headers are none.
func keyOf(p parameters, name string, headers [][]byte) string {
	if key := p[name].text; name != "" && key != "" {
		return key
	}
	if len(headers) != 1 {
		return ""
	}
	fields := strings.Fields(string(headers[0]))
	if len(fields) == 0 || len(fields) > 2 {
		return ""
	}
	return fields[len(fields)-1]
}
