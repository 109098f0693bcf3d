package foreign

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"probity/engine"
)

// maxHeader bounds the first line, in bytes.
const maxHeader = 1 << 20

// Read calls visit with the cells of the named columns of each row, and its line. A name that ends in a question mark
// is of a column that may be missing; its cells are empty then. The delimiter is a comma, semicolon, tab or pipe: the
// first with which the columns are found.
func Read(in io.Reader, columns []string, visit func(line int, cells []string) error) error {
	buffered := bufio.NewReaderSize(in, maxHeader)
	head, err := buffered.Peek(3)
	if err != nil && len(head) == 0 {
		return errors.New("the file is empty")
	}
	if bytes.Equal(head, []byte("\xef\xbb\xbf")) {
		_, _ = buffered.Discard(len(head)) // it is buffered
	}
	head, _ = buffered.Peek(maxHeader) // the start of a shorter file is all of it
	var at []int
	var comma rune
	var missing error
	for _, comma = range []rune{',', ';', '\t', '|'} {
		first := csv.NewReader(bytes.NewReader(head))
		first.Comma = comma
		first.LazyQuotes = true
		names, err := first.Read()
		if err != nil {
			return fmt.Errorf("line 1: %w", err)
		}
		if at, err = find(names, columns); err == nil {
			missing = nil
			break
		}
		if missing == nil {
			missing = err // with commas
		}
	}
	if missing != nil {
		return missing
	}
	rows := csv.NewReader(buffered)
	rows.Comma = comma
	rows.LazyQuotes, rows.ReuseRecord = true, true
	rows.FieldsPerRecord = -1
	cells := make([]string, len(columns))
	for first := true; ; first = false {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			continue
		}
		for i, column := range at {
			cells[i] = ""
			if column >= 0 && column < len(row) {
				cells[i] = row[column]
			}
		}
		line, _ := rows.FieldPos(0)
		if err := visit(line, cells); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// find returns the places of the columns among the names, -1 for one that may be missing and is.
func find(names, columns []string) (at []int, err error) {
	for _, column := range columns {
		name, optional := strings.CutSuffix(column, "?")
		i := slices.Index(names, name)
		if i < 0 {
			i = slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(strings.TrimSpace(n), name) })
		}
		if i < 0 && !optional {
			return nil, fmt.Errorf("there is no column %q among %.200q", name, names)
		}
		at = append(at, i)
	}
	return at, nil
}

// Key returns what the addresses of two files are joined by.
func Key(email string) string {
	a, err := engine.ParseTrimmed(email)
	if err != nil {
		return email
	}
	return a.Folded()
}

// Words translates the words of another program.
type Words struct {
	Known   []string          // what they may become
	Mapping map[string]string // by their words, without case
}

// Of returns what a word stands for: itself, without case, if the mapping does not have it.
func (w Words) Of(word string) (string, error) {
	word = strings.TrimSpace(word)
	for theirs, ours := range w.Mapping {
		if strings.EqualFold(theirs, word) {
			word = ours
			break
		}
	}
	i := slices.IndexFunc(w.Known, func(known string) bool { return strings.EqualFold(known, word) })
	if i < 0 {
		return "", fmt.Errorf("%.40q is not one of %s: say in the map which it stands for, as in %.40s=%s", word,
			strings.Join(w.Known, ", "), word, w.Known[0])
	}
	return w.Known[i], nil
}

// Statuses are the statuses of verdicts.
var Statuses = []string{"VALID", "RISKY", "INVALID", "UNKNOWN"}

// ErrTooMany means that a file has more addresses than its reader takes.
var ErrTooMany = errors.New("too many addresses")

// ReadStatuses reads the results of another verifier, statuses by Key: at most most, 0 for any number.
func ReadStatuses(in io.Reader, email, status string, words Words, most int) (map[string]string, error) {
	found := map[string]string{}
	return found, Read(in, []string{email, status}, func(_ int, cells []string) error {
		if strings.TrimSpace(cells[0]) == "" {
			return nil
		}
		s, err := words.Of(cells[1])
		found[Key(cells[0])] = s
		if most > 0 && len(found) > most {
			err = cmp.Or(err, ErrTooMany)
		}
		return err
	})
}
