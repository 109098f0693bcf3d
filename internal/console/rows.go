package console

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// PrintRows writes rows as a table, or as JSON lines.
func PrintRows[T any](con *IO, asJSON bool, head string, rows []T, cells func(T) []string) error {
	if asJSON {
		w := NewLineWriter(con.Out)
		for _, r := range rows {
			if err := w.Encode(r); err != nil {
				return err
			}
		}
		return w.Flush()
	}
	t := tabwriter.NewWriter(con.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, r := range rows {
		line := cells(r)
		for i := range line {
			line[i] = Printable(OrDash(line[i]))
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	return t.Flush()
}

// FormatTime writes a time for a table.
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Printable replaces control characters of an input, which would reach the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// maxCell is how many characters of a text whose length nothing bounds are shown in a table: one cell widens its column
// in all rows.
const maxCell = 64

// Shorten is a text for a table, where an ellipsis replaces the middle of a long one: an address keeps its domain.
func Shorten(s string) string {
	r := []rune(s)
	if len(r) <= maxCell {
		return s
	}
	const head = maxCell / 2
	return string(r[:head-1]) + "…" + string(r[len(r)-head:])
}

// OrDash is a text for a table, where an empty one is a dash.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Counted is a number with its noun: 1 job, 2 jobs.
func Counted[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun
}
