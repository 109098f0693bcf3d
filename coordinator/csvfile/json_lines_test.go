package csvfile

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"
)

func TestJSONLinesAreRows(t *testing.T) {
	for _, c := range []struct {
		name, in string
		o        Options
		emails   []string
		out      string
	}{
		{"plain", `{"email":"a@x.org","name":"Ann"}` + "\n" + `{"email":"b@x.org","name":"Bo"}`, Options{},
			[]string{"a@x.org", "b@x.org"}, "email,name,ours\na@x.org,Ann,x\nb@x.org,Bo,x\n"},
		{"any order, more and fewer members", `{"n":1,"email":"a@x.org"}` + "\n" + `{"email":"b@x.org","tag":"t"}` +
			"\n" + `{"n":3}` + "\n{}\n", Options{}, []string{"a@x.org", "b@x.org", "", ""},
			"n,email,tag,ours\n1,a@x.org,,x\n,b@x.org,t,x\n3,,,x\n,,,x\n"},
		{"kinds of values", `{"email":"a@x.org","t":true,"z":null,"n":-1.50e3,"o":{"a":["}",1]},"e":""}`, Options{},
			[]string{"a@x.org"}, "email,t,z,n,o,e,ours\na@x.org,true,,-1.50e3,\"{\"\"a\"\":[\"\"}\"\",1]}\",,x\n"},
		{"escapes", `{"e\u006dail":"\"a b\"@x.org","n":"1, \"2\"\r\n3\\","=f":"=1+1"}`, Options{},
			[]string{`"a b"@x.org`},
			"email,n,=f,ours\n\"\"\"a b\"\"@x.org\",\"1, \"\"2\"\"\r\n3\\\",=1+1,x\n"},
		{"white space and empty lines", "\n \t{ \"email\" : \"a@x.org\" , \"n\" : [ ] }\r\n\r\n" +
			`{"email":"b@x.org"}` + "\n\n", Options{}, []string{"a@x.org", "b@x.org"},
			"email,n,ours\na@x.org,[ ],x\nb@x.org,,x\n"},
		{"named", `{"id":7,"Work Mail":"a@x.org"}`, Options{Column: "workmail"}, []string{"a@x.org"},
			"id,Work Mail,ours\n7,a@x.org,x\n"},
		{"byte order mark", BOM + `{"email":"jos\u00e9@x.org"}`, Options{}, []string{"josé@x.org"},
			"email,ours\njosé@x.org,x\n"},
		{"name taken", `{"email":"a@x.org","ours":1}`, Options{}, []string{"a@x.org"},
			"email,ours,ours_2\na@x.org,1,x\n"},
		{"braces in a CSV with a delimiter", "{email};n\na@x.org;1\n", Options{Column: "{email}", Delimiter: ';'},
			[]string{"a@x.org"}, "{email};n;ours\na@x.org;1;x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(
				strings.TrimPrefix(c.in, BOM))
			require.NoError(t, err)
			for name, src := range map[string]io.Reader{
				"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
				"gzip": strings.NewReader(pack(t, "gzip", c.in)), "zip": strings.NewReader(pack(t, "zip", c.in)),
				"UTF-16": strings.NewReader(utf16),
			} {
				got, err := read(src, c.o)
				require.NoError(t, err, name)
				require.Equal(t, c.emails, got.emails, name)
				require.Equal(t, c.out, got.out, name)
			}
		})
	}
}

func TestJSONLinesAreRefusedWithTheirLine(t *testing.T) {
	const good = `{"email":"a@x.org"}` + "\n"
	many := func(n int) string {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"m%d":1`, i))
		}
		return `{"email":"a@x.org",` + strings.Join(members, ",") + "}"
	}
	for _, c := range []struct {
		name, in, want string
		o              Options
	}{
		{"cut off", good + good + `{"email":"b@x.org"`,
			"line 3: this line is not JSON (unexpected end of JSON input); send one object a line", Options{}},
		{"empty lines count", good + "\n\n" + `{"email":b}`, "line 4: this line is not JSON (invalid character 'b'",
			Options{}},
		{"over several lines", "{\n\"email\":1}", "line 1: this line is not JSON", Options{}},
		{"two in a line", good + `{} {}`, "line 2: this line is not JSON", Options{}},
		{"not an object", good + `["a@x.org"]`, "line 2: this line is not a JSON object", Options{}},
		{"an array", " [\n" + good + "]", "the file is a JSON array; send JSON lines instead", Options{}},
		{"twice", good + `{"email":"a@x.org","\u0065mail":"b@x.org"}`, `line 2: the member "email" is there twice`,
			Options{}},
		{"not UTF-8", good + "{\"email\":\"jos\xe9@x.org\"}", "line 2: this line is not in UTF-8", Options{}},
		{"no such member", `{"mail":"a@x.org"}` + "\n" + good,
			`line 1: no member named "email" in the first object, which has "mail"; name yours as email_column`,
			Options{}},
		{"no header", good, "leave out has_header=false", Options{NoHeader: true}},
		{"long member", good + `{"n":"` + strings.Repeat("a", MaxField+1) + `"}`,
			`line 2: the member "n" is longer than 64 KiB`, Options{}},
		{"long name", good + `{"` + strings.Repeat("a", MaxField+1) + `":1}`, "line 2: the names of members are too long",
			Options{}},
		{"long line", good + `{"n":"` + strings.Repeat("a", MaxRow+1), "line 2: this line is longer than 8 MiB",
			Options{}},
		{"many members", good + many(MaxColumns), "line 2: the file has more than 1000 different members; at most 1000",
			Options{}},
		{"wrong member", strings.Repeat(`{"email":"Ann","mail":"a@x.org"}`+"\n", 3),
			`none of the first 3 cells of the member "email" looks like an e-mail address, for example "Ann"`, Options{}},
		{"many addresses", good + good + good, "the file has more than 2 addresses",
			Options{Limits: Limits{Addresses: 2}}},
		{"rows that are longer than their lines", many(900) + strings.Repeat("\n"+`{"m899":1}`, 100),
			"the file unpacks to more than 20000 bytes", Options{Limits: Limits{Bytes: 20_000}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(strings.NewReader(c.in), c.o)
			require.ErrorContains(t, err, c.want)
			require.ErrorAs(t, err, new(*Error))
		})
	}
}

// TestJSONLinesNeedFlatMemory: a file of 128 MB is read with a few blocks of memory.
func TestJSONLinesNeedFlatMemory(t *testing.T) {
	line := []byte(`{"email":"ann@x.org","name":"Ann \"A\" Example","tags":["one","two"]}` + "\n")
	r, err := NewReader(io.LimitReader(&repeated{text: line}, 128<<20), Options{})
	require.NoError(t, err)
	defer r.Close()
	var before, after runtime.MemStats
	var b Block
	require.NoError(t, r.Next(&b))
	runtime.ReadMemStats(&before)
	rows := 0
	for err = r.Next(&b); err == nil; err = r.Next(&b) {
		rows += len(b.Rows)
		runtime.ReadMemStats(&after)
		require.Less(t, after.HeapAlloc, before.HeapAlloc+64<<20)
	}
	require.ErrorContains(t, err, "not JSON", "the last line is cut off")
	require.Greater(t, rows, 1_000_000)
}

// repeated is an endless text.
type repeated struct {
	text []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// FuzzJSONLines: what encoding/json and encoding/csv see in a file and in what is written of it is the same.
func FuzzJSONLines(f *testing.F) {
	f.Add([]byte(`{"email":"a@x.org","n":[1,{"x":"}"}],"s":"\"\\\u00e9"}` + "\n" + `{"b":null,"email":"x"}`))
	f.Add([]byte("{\"email\":true}\r\n\n{ \"email\" : 1.5e3 , \"\":\"a\\nb\" }"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if isJSON, inArray := beginsJSON(in); !isJSON || inArray {
			return
		}
		got, err := read(bytes.NewReader(in), Options{AnyColumn: true})
		if err != nil {
			require.ErrorAs(t, err, new(*Error))
			return
		}
		lines := csv.NewReader(strings.NewReader(got.out))
		lines.FieldsPerRecord = got.dialect.Widest + 1
		names, err := lines.Read()
		require.NoError(t, err)
		rows, err := lines.ReadAll()
		require.NoError(t, err)
		for line := range bytes.SplitSeq(in, []byte("\n")) {
			if len(bytes.Trim(line, " \t\r")) == 0 {
				continue
			}
			var object map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(line, &object))
			for i, cell := range rows[0][:len(names)-1] {
				value, there := object[names[i]]
				delete(object, names[i])
				require.Equal(t, cellOf(t, value, there), cell)
			}
			require.Empty(t, object)
			rows = rows[1:]
		}
		require.Empty(t, rows)
	})
}

// cellOf is the cell of a member as encoding/json and encoding/csv see it: the latter makes LF of CRLF.
func cellOf(t *testing.T, value json.RawMessage, there bool) string {
	if !there || string(value) == "null" {
		return ""
	}
	text := string(value)
	if value[0] == '"' {
		require.NoError(t, json.Unmarshal(value, &text))
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

func BenchmarkJSONLines(b *testing.B) {
	const rows = 100_000
	in := bytes.Join(slices.Repeat([][]byte{[]byte(
		`{"id":184467,"first":"Annabella","email":"annabella.richter@alder-forge.example","city":"Braunschweig"}`)},
		rows), []byte("\n"))
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(in), Options{})
		require.NoError(b, err)
		var block Block
		for r.Next(&block) == nil {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}
