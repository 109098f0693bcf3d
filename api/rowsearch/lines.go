package rowsearch

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Rows is one search through the results of a job, line by line, for rows whose address contains a term.
type Rows struct {
	Found []json.RawMessage
	Last  int64 // the last row that was searched

	term  []byte // in lower case; empty matches all
	after int64  // rows up to this one are skipped
	limit int
}

// FindRows makes a search for at most limit rows after a row.
func FindRows(term string, after int64, limit int) *Rows {
	return &Rows{Found: []json.RawMessage{}, term: []byte(strings.ToLower(term)), after: after, limit: limit}
}

// Line keeps a row that matches.
func (r *Rows) Line(b []byte) error {
	r.Last = rowNumber(b)
	if r.Last <= r.after || (len(r.term) > 0 && !bytes.Contains(bytes.ToLower(b), r.term)) {
		return nil
	}
	var row struct {
		Email string `json:"email"`
	}
	if err := json.Unmarshal(b, &row); err != nil {
		return err
	}
	if row.Email == "" || !strings.Contains(strings.ToLower(row.Email), string(r.term)) {
		return nil
	}
	r.Found = append(r.Found, append(json.RawMessage(nil), b...))
	if len(r.Found) >= r.limit {
		return errLimitReached
	}
	return nil
}

// rowNumber is the number that each line begins with.
func rowNumber(b []byte) (n int64) {
	digits, _ := bytes.CutPrefix(b, []byte(`{"row":`))
	for _, c := range digits {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// Providers counts the rows of a job by provider and status.
type Providers map[string]map[string]int64

// Line counts a row.
func (p Providers) Line(b []byte) error {
	status, provider := textAfter(b, `,"status":"`), textAfter(b, `,"smtp_provider":"`)
	if status == "" {
		return nil
	}
	if p[provider] == nil {
		p[provider] = make(map[string]int64, 4)
	}
	p[provider][status]++
	return nil
}

// textAfter is the raw string value after a key that we write: names of statuses and providers have no character that
// JSON escapes. An address before it cannot be mistaken for the key, because its quotes are escaped.
func textAfter(b []byte, key string) string {
	_, rest, ok := bytes.Cut(b, []byte(key))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}
