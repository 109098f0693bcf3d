package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// TestResultKeepsInputCells uploads lists as programs write them. With any encoding, delimiter and line ends, every
// cell of the input is in the result, formulas included; only our own cells are made harmless.
func TestResultKeepsInputCells(t *testing.T) {
	const text = "name,email,note\nÄnn,ann@shop.test,=1+1\nBo,nobody@shop.test,\"@SUM(A1) \"\"x\"\"\"\n,,-2\nCy,+cy@shop.test,\t+3\n"
	w := newTestServer(t, nil)
	for name, c := range map[string]struct {
		sent string
		want string // the input cells in the result
		says string // encoding
	}{
		"UTF-8":                  {text, text, "utf-8"},
		"with a byte order mark": {"\ufeff" + text, "\ufeff" + text, "utf-8"},
		"UTF-16 LE": {encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), text), text,
			"utf-16"},
		"UTF-16 BE": {encoded(t, unicode.UTF16(unicode.BigEndian, unicode.UseBOM), text), text,
			"utf-16"},
		"Latin-1": {encoded(t, charmap.ISO8859_1, text), text, "windows-1252"},
		"carriage returns": {strings.ReplaceAll(text, "\n", "\r\n"), strings.ReplaceAll(text, "\n", "\r\n"),
			"utf-8"},
		"semicolons": {strings.ReplaceAll(text, ",", ";"), strings.ReplaceAll(text, ",", ";"), "utf-8"},
		"sep line":   {"sep=,\n" + text, "sep=,\n" + text, "utf-8"},
		"NUL bytes": {strings.ReplaceAll(text, "Änn", "\x00"), strings.ReplaceAll(text, "Änn", "\x00"),
			"utf-8"},
		"a line end missing": {strings.TrimSuffix(text, "\n"), strings.TrimSuffix(text, "\n"), "utf-8"},
		"a cell of just 64 KiB": {strings.ReplaceAll(text, "Änn", strings.Repeat("x", 60<<10)),
			strings.ReplaceAll(text, "Änn", strings.Repeat("x", 60<<10)), "utf-8"},
		"columns named as ours is": {strings.ReplaceAll(text, "note", "verify_status"),
			strings.ReplaceAll(text, "note", "verify_status"), "utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			job := w.uploadAndWait(w.key, part{"file", "l.csv", c.sent})
			require.Equal(t, c.says, job["encoding"])
			require.EqualValues(t, 4, job["total_rows"])
			got := string(w.get(job["results_url"].(string), w.key).body)
			require.Equal(t, lines(c.want), lines(inputColumns(t, got, strings.Contains(c.want, ";"))))
		})
	}
}

func encoded(t *testing.T, e encoding.Encoding, s string) string {
	t.Helper()
	b, err := e.NewEncoder().String(s)
	require.NoError(t, err)
	return b
}

// lines are the lines of a file, the last with or without a line end.
func lines(s string) []string {
	return strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
}

// inputColumns removes our fourteen columns, none of which is quoted here, from the end of each line.
func inputColumns(t *testing.T, result string, semicolons bool) string {
	t.Helper()
	delimiter := ","
	if semicolons {
		delimiter = ";"
	}
	var b strings.Builder
	for _, line := range lines(result) {
		cells := strings.Split(line, delimiter)
		if !strings.HasPrefix(line, "sep=") && !strings.HasPrefix(line, "\ufeffsep=") {
			require.Greater(t, len(cells), 14, "%q", line)
			cells = cells[:len(cells)-14]
		}
		b.WriteString(strings.Join(cells, delimiter) + "\n")
	}
	return b.String()
}
