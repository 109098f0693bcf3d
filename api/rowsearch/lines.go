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
func rowNumber(b []byte) int64 {
	digits, _ := bytes.CutPrefix(b, []byte(`{"row":`))
	n, _ := leadingNumber(digits)
	return n
}

// leadingNumber is the number that a text begins with, and how many digits it has.
func leadingNumber(b []byte) (n int64, digits int) {
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
		digits++
	}
	return n, digits
}

// scoreSteps is how many parts of ten points scores are counted in; the last one includes 100.
const scoreSteps = 10

// Tally counts the rows of a job.
type Tally struct {
	Providers map[string]map[string]int64 `json:"providers"` // by provider and status
	Scores    [scoreSteps]int64           `json:"scores"`
}

// NewTally returns a tally of no rows.
func NewTally() *Tally { return &Tally{Providers: map[string]map[string]int64{}} }

// Line counts a row.
func (t *Tally) Line(b []byte) error {
	status, provider := textAfter(b, `,"status":"`), textAfter(b, `,"smtp_provider":"`)
	if status == "" {
		return nil
	}
	if t.Providers[provider] == nil {
		t.Providers[provider] = make(map[string]int64, 4)
	}
	t.Providers[provider][status]++
	if score, ok := numberAfter(b, `,"score":`); ok {
		t.Scores[min(score/scoreSteps, scoreSteps-1)]++
	}
	return nil
}

// numberAfter is the number after a key that we write; false if there is none.
func numberAfter(b []byte, key string) (n int64, ok bool) {
	_, rest, _ := bytes.Cut(b, []byte(key))
	n, length := leadingNumber(rest)
	return n, length > 0
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
