package tomlfile

import (
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"
)

// FuzzStatements holds that the parts of a file lie in order within it, that each begins where its line begins, and
// that each is TOML.
func FuzzStatements(f *testing.F) {
	f.Add("a = [\n1, # ]\n2]\n[b.\"c\"]\nd = '''\n]\n''''\n[[e]]\nf = \"\\\"\"\n")
	f.Add("[ a ] # ]\n[[ \"]\" . b ]]\nc.d = {e = 1}")
	f.Fuzz(func(t *testing.T, data string) {
		all, err := Statements([]byte(data))
		if err != nil {
			return
		}
		end := 0
		for _, s := range all {
			if s.Start < end || s.End <= s.Start || s.Line != 1+strings.Count(data[:s.Start], "\n") {
				t.Fatalf("%q: %+v", data, s)
			}
			if err := toml.Unmarshal([]byte(data[s.Start:s.End]), new(map[string]any)); err != nil {
				t.Fatalf("%q: %+v: %v", data, s, err)
			}
			end = s.End
		}
	})
}

func TestMistakesSayWhatIsExpected(t *testing.T) {
	type table struct {
		Number int      `toml:"number"`
		Part   float64  `toml:"part"`
		Switch bool     `toml:"switch"`
		Text   string   `toml:"text"`
		List   []string `toml:"list"`
		Inner  *struct {
			Number int `toml:"number"`
		} `toml:"inner"`
		More []struct {
			Text string `toml:"text"`
		} `toml:"more"`
	}
	for text, want := range map[string]string{
		"number = \"many\"":          `line 1: number: a whole number is expected, found the text "many"`,
		"number = 1.5":               "line 1: number: a whole number is expected, found 1.5",
		"\npart = true":              "line 2: part: a number is expected, found true",
		"switch = 3":                 "line 1: switch: true or false is expected, found 3",
		"text = []":                  "line 1: text: a text in quotes is expected, found a list",
		"list = [\n\"a\",\n1]":       "line 3: list: a list of texts in quotes is expected, found a list with 1",
		"list = 1":                   "line 1: list: a list of texts in quotes is expected, found 1",
		"inner = 1":                  "line 1: inner: a table is expected, found 1",
		"inner = {number = {a = 1}}": "line 1: inner: number: a whole number is expected, found a table",
		"[inner]\nnumber = false":    "line 2: inner.number: a whole number is expected, found false",
		"more = 1":                   "line 1: more: a list of tables is expected, found 1",
		"inner.other = 1":            `line 1: unknown key "inner.other"`,
		"number = 1\nnumber = 2":     "line 2: ",
		"number":                     "line 1: ",
	} {
		var into table
		require.ErrorContains(t, Decode([]byte(text), &into), want, text)
	}
}
