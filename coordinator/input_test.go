package coordinator

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/charmap"
	"pgregory.net/rapid"

	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
)

// style is a way to write a list.
type style struct {
	delimiter         string
	crlf, windows1252 bool
}

// TestCellsAreEqualInAllFormats compares the cells of JSON lines and of callbacks with those of the CSV result, in
// lists of 16 dialects: four delimiters, two line ends, two encodings.
func TestCellsAreEqualInAllFormats(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	for _, delimiter := range []string{",", ";", "\t", "|"} {
		t.Run(strconv.Quote(delimiter), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := style{delimiter, rapid.Bool().Draw(t, "CRLF"), rapid.Bool().Draw(t, "Windows-1252")}
				requireSameCells(t, w, drawList(t, s))
			})
		})
	}
	require.NoError(t, w.close(t))
}

// drawnList is a random list and its format.
type drawnList struct {
	text     string
	noHeader bool
	names    []string // of the header
	mail     int      // the column of the address
}

func drawList(t *rapid.T, s style) (l drawnList) {
	l.noHeader = rapid.Bool().Draw(t, "no header")
	columns := rapid.IntRange(2, 5).Draw(t, "columns")
	l.mail = rapid.IntRange(0, columns-1).Draw(t, "mail")
	var b strings.Builder
	names := []string{"name", "note", "note_2", "verify_status", "3", "ä \"q\""}
	if l.noHeader || rapid.Bool().Draw(t, "sep") {
		b.WriteString("sep=" + s.delimiter + "\n") // else a delimiter in a cell may be detected as that of the file
		names = append(names, "")                  // tabs around "email" alone are not detected as delimiters
	}
	for i := range columns {
		l.names = append(l.names, rapid.SampledFrom(names).Draw(t, "header"))
		if i == l.mail {
			l.names[i] = "email"
		}
	}
	if !l.noHeader {
		writeRow(&b, s, l.names)
	}
	text := rapid.StringOf(rapid.RuneFrom([]rune("ab 1=+'\"\n,;\t|äß€{}\\<")))
	for i := range rapid.IntRange(1, 6).Draw(t, "rows") {
		row := make([]string, columns, columns+3)
		for c := range row {
			row[c] = text.Draw(t, "cell")
		}
		row[l.mail] = rapid.SampledFrom([]string{"a@x.example", "A@X.example", "no address", "",
			fmt.Sprintf("u%d@nx.example", i)}).Draw(t, "address")
		if i == 0 {
			row[l.mail] = "first@x.example"
		} else if rapid.Bool().Draw(t, "other width") {
			row = append(row[:rapid.IntRange(1, columns).Draw(t, "width")],
				rapid.SliceOfN(text, 0, 3).Draw(t, "more")...)
		}
		writeRow(&b, s, row)
	}
	l.text = b.String()
	if s.windows1252 {
		l.text += "\xe9" + s.delimiter + "\n"
		enc, err := charmap.Windows1252.NewEncoder().String(b.String())
		require.NoError(t, err)
		l.text = enc + "\xe9" + s.delimiter + "\n"
	}
	return l
}

// writeRow writes a row, each cell in quotes that needs them.
func writeRow(b *strings.Builder, s style, cells []string) {
	for i, c := range cells {
		if i > 0 {
			b.WriteString(s.delimiter)
		}
		if strings.ContainsAny(c, s.delimiter+"\"\n") {
			c = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
		}
		b.WriteString(c)
	}
	if s.crlf {
		b.WriteByte('\r')
	}
	b.WriteByte('\n')
}

func requireSameCells(t *rapid.T, w *testEnv, l drawnList) {
	o := ingest.Options{Reading: csvfile.Options{NoHeader: l.noHeader}, CallbackInput: true}
	if l.noHeader {
		o.Reading.Column = strconv.Itoa(l.mail + 1)
	}
	j, err := w.c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(l.text), Options: o})
	require.NoError(t, err, "%q", l.text)
	j, err = w.c.Wait(t.Context(), j.ID)
	require.NoError(t, err)
	var asCSV, asLines, asCallback bytes.Buffer
	require.NoError(t, w.c.Results(t.Context(), j.ID, results.Filter{}, &asCSV))
	require.NoError(t, w.c.Results(t.Context(), j.ID, results.Filter{Form: results.Form{Format: results.JSONL}},
		&asLines))
	require.NoError(t, w.c.WriteResults(t.Context(), j.ID, &asCallback))
	require.Equal(t, asLines.String(), asCallback.String())

	var d struct{ Delimiter byte }
	require.NoError(t, json.Unmarshal(j.Dialect, &d))
	r := csv.NewReader(&asCSV)
	r.Comma, r.FieldsPerRecord = rune(d.Delimiter), -1
	rows, err := r.ReadAll()
	require.NoError(t, err)
	if strings.HasPrefix(l.text, "sep=") {
		rows = rows[1:]
	}
	own := len(rows[len(rows)-1]) - ownColumns // columns of the list
	if !l.noHeader {
		rows = rows[1:]
	}
	lines := strings.Split(strings.TrimSuffix(asLines.String(), "\n"), "\n")
	require.Len(t, lines, len(rows))
	for i, line := range lines {
		var got struct {
			Email string
			Input map[string]string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		require.Len(t, got.Input, own-1, "each column but that of the address has a key of its own: %s", line)
		requireOrder(t, line, rows[i][:own], l.mail)
		require.Equal(t, rows[i][l.mail], got.Email)
		for c, name := range l.names {
			if first := slices.Index(l.names, name); !l.noHeader && c != l.mail && name != "" && first == c {
				require.Equal(t, rows[i][c], got.Input[name], "%s of %s", name, line)
			}
		}
	}
}

// requireOrder reads the values of input in the order in which they are written.
func requireOrder(t *rapid.T, line string, cells []string, mail int) {
	d := json.NewDecoder(strings.NewReader(line[strings.LastIndex(line, `,"input":{`)+len(`,"input":`):]))
	_, err := d.Token()
	require.NoError(t, err)
	for c, want := range cells {
		if c == mail {
			continue
		}
		_, err := d.Token()
		require.NoError(t, err)
		got, err := d.Token()
		require.NoError(t, err)
		require.Equal(t, want, got, "column %d of %s", c+1, line)
	}
}

// Names are those of the header, with a number where one is repeated; without a header, columns are numbered.
func TestInputColumnNames(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	inputOf := func(list string, o ingest.Options) string {
		j, err := w.c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(list), Options: o})
		require.NoError(t, err)
		w.finish(t, j.ID)
		line, _, _ := strings.Cut(w.results(t, j.ID, results.Filter{Form: results.Form{Format: results.JSONL}}), "\n")
		return line[strings.Index(line, `"input":`):]
	}
	require.Equal(t, `"input":{"note":"a","note_3":"b","note_2":"c","4":"","email_2":"e","7":""}}`,
		inputOf("note,note,note_2,,email,email\na,b,c,,a@x.example,e\n,,,,,,\n", ingest.Options{}))
	require.Equal(t, `"input":{"1":"a","3":""}}`, inputOf("a,a@x.example\n1,2,3\n",
		ingest.Options{Reading: csvfile.Options{NoHeader: true, Column: "2"}}))
	require.Equal(t, `"input":{}}`, inputOf("email\na@x.example\n", ingest.Options{}))
	require.NoError(t, w.close(t))
}
