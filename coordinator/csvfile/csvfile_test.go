package csvfile

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/unicode"
)

// fileRead is a file that was read to its end: its dialect, its e-mail cells, and the file written back with one cell
// appended.
type fileRead struct {
	dialect Dialect
	emails  []string
	out     string
}

// read reads a file to its end.
func read(src io.Reader, o Options) (fileRead, error) {
	r, err := NewReader(src, o)
	if err != nil {
		return fileRead{}, err
	}
	defer r.Close()
	var blocks []Block
	var emails []string
	for {
		var b Block
		if err := r.Next(&b); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fileRead{}, err
		}
		blocks = append(blocks, b)
	}
	d := r.Dialect()
	out := d.AppendPreamble(nil, r.Preamble(), []string{"ours"})
	for _, b := range blocks {
		again := Block{Buf: d.AppendUTF8(nil, b.Buf), Line: b.Line}
		if err := d.Parse(&again); err != nil {
			return fileRead{dialect: d}, err
		}
		for i := range again.Rows {
			emails = append(emails, string(again.Email(i)))
			out = d.AppendRow(out, &again, i, []string{"x"})
		}
	}
	return fileRead{d, emails, string(out)}, nil
}

func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name, in string
		o        Options
		emails   []string
		out      string
	}{
		{"plain", "email,name\na@x.org,Ann\nb@x.org,Bob\n", Options{}, []string{"a@x.org", "b@x.org"},
			"email,name,ours\na@x.org,Ann,x\nb@x.org,Bob,x\n"},
		{"crlf", "name,email\r\nAnn,a@x.org\r\nBob,b@x.org", Options{}, []string{"a@x.org", "b@x.org"},
			"name,email,ours\r\nAnn,a@x.org,x\r\nBob,b@x.org,x\r\n"},
		{"semicolon", "name;E mail\nA,B;a@x.org\n", Options{}, []string{"a@x.org"},
			"name;E mail;ours\nA,B;a@x.org;x\n"},
		{"tab", "name\temail\nAnn\ta@x.org\n", Options{}, []string{"a@x.org"}, "name\temail\tours\nAnn\ta@x.org\tx\n"},
		{"pipe", "email|n\na@x.org|1\n", Options{}, []string{"a@x.org"}, "email|n|ours\na@x.org|1|x\n"},
		{"sep line", "sep=;\r\nemail;n\r\na@x.org;1\r\n", Options{}, []string{"a@x.org"},
			"sep=;\r\nemail;n;ours\r\na@x.org;1;x\r\n"},
		{"mark kept", "\xef\xbb\xbfemail\na@x.org\n", Options{}, []string{"a@x.org"},
			"\xef\xbb\xbfemail,ours\na@x.org,x\n"},
		{"quotes", "n,email\n\"a, \"\"b\"\"\nc\",\"a@x.org\"\n\"q\"tail,b@x.org\n", Options{},
			[]string{"a@x.org", "b@x.org"},
			"n,email,ours\n\"a, \"\"b\"\"\nc\",\"a@x.org\",x\n\"q\"tail,b@x.org,x\n"},
		{"quote inside a cell is text", "n,email\n6\" pipe,a@x.org\n", Options{}, []string{"a@x.org"},
			"n,email,ours\n6\" pipe,a@x.org,x\n"},
		{"quoted address", "email\n\"\"\"a b\"\"@x.org\"\n", Options{}, []string{"\"a b\"@x.org"},
			"email,ours\n\"\"\"a b\"\"@x.org\",x\n"},
		{"ragged", "email,n\na@x.org\nb@x.org,1,2\n", Options{}, []string{"a@x.org", "b@x.org"},
			"email,n,,ours\na@x.org,,,x\nb@x.org,1,2,x\n"},
		{"blank", "n,email\n1,\n2\n\n3, \t\n", Options{}, []string{"", "", "", " \t"},
			"n,email,ours\n1,,x\n2,,x\n,,x\n3, \t,x\n"},
		{"by number", "n,m\n1,a@x.org\n", Options{Column: "2"}, []string{"a@x.org"}, "n,m,ours\n1,a@x.org,x\n"},
		{"by name", "n;Mail Address\n1;a@x.org\n", Options{Column: "mailaddress"}, []string{"a@x.org"},
			"n;Mail Address;ours\n1;a@x.org;x\n"},
		{"exact name wins", "Email,email\n1,a@x.org\n", Options{}, []string{"a@x.org"},
			"Email,email,ours\n1,a@x.org,x\n"},
		{"no header", "Ann;a@x.org\nBob;b@x.org\n", Options{NoHeader: true}, []string{"a@x.org", "b@x.org"},
			"Ann;a@x.org;x\nBob;b@x.org;x\n"},
		{"no header by number", "a@x.org;Ann\n", Options{NoHeader: true, Column: "1"}, []string{"a@x.org"},
			"a@x.org;Ann;x\n"},
		{"name taken", "ours,email,ours_2\n1,a@x.org,2\n", Options{}, []string{"a@x.org"},
			"ours,email,ours_2,ours_3\n1,a@x.org,2,x\n"},
		{"windows-1252", "email,n\na@x.org,Jos\xe9 \x80\n", Options{}, []string{"a@x.org"},
			"email,n,ours\na@x.org,José €,x\n"},
		{"utf-8", "email,n\na@x.org,José €\n", Options{}, []string{"a@x.org"}, "email,n,ours\na@x.org,José €,x\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{"whole": strings.NewReader(c.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
				got, err := read(src, c.o)
				emails, out := got.emails, got.out
				require.NoError(t, err, name)
				require.Equal(t, c.emails, emails, name)
				require.Equal(t, c.out, out, name)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	wide := strings.Repeat(",", 66)
	for _, c := range []struct {
		name, in string
		o        Options
		kind     Kind
		line     int64
		says     string
	}{
		{"empty", "", Options{}, Unacceptable, 0, "empty; send a header line"},
		{"header only", "email\n", Options{}, Unacceptable, 0, "no rows"},
		{"no column", "name;mail\nx;y\n", Options{}, Unacceptable, 1, `found "name", "mail" (delimiter ';')`},
		{"no header", "Ann;a@x.org\nBo;b@x.org\n", Options{}, Unacceptable, 1, "has_header=false and email_column=2"},
		{"header is an address", "a@x.org\nb@x.org\n", Options{Column: "1"}, Unacceptable, 1, "has_header"},
		{"unclosed quote", "email,n\na@x.org,1\nb@x.org,\"2\nc@x.org,3\n", Options{}, Unacceptable, 3,
			"unclosed quote"},
		{"long cell", "email,n\na@x.org," + strings.Repeat("x", MaxField+1) + "\n", Options{}, Unacceptable, 2,
			"longer than 64 KiB"},
		{"long quoted cell", "email,n\na@x.org,\"" + strings.Repeat("x", 3*MaxField), Options{}, Unacceptable, 2,
			"unclosed quote"},
		{"too wide a row", "email\na@x.org" + wide + "\n", Options{}, Unacceptable, 2, "has 67 cells"},
		{"too many columns", "email" + strings.Repeat(",", 1000) + "\n", Options{}, TooLarge, 1, "1001 columns"},
		{"too many addresses", "email\na\nb\n\nc\n", Options{Limits: Limits{Addresses: 2}}, TooLarge, 0,
			"more than 2 addresses"},
		{"too many bytes", "email\na\nb\nc\n", Options{Limits: Limits{Bytes: 8}}, TooLarge, 0, "more than 8 bytes"},
		{"number out of range", "a,b\n1,2\n", Options{Column: "3"}, Unacceptable, 1,
			`there is no email_column=3; give a number from 1 to 2, or one of the names (delimiter ','): "a", "b"`},
		{"number below range", "a@x.org\n", Options{Column: "0", NoHeader: true}, Unacceptable, 1,
			"there is no email_column=0; give a number from 1"},
		{"blank lines first", " \n\nemail\na@x.org\n", Options{}, Unacceptable, 1,
			"the first line is empty; begin the file with its header"},
		{"binary", "\x00\x01\x02\n", Options{}, Unacceptable, 1, "does not look like text"},
		{"binary without NUL", "\xd6|\x1b\xcc\fF\n", Options{}, Unacceptable, 1, "does not look like text"},
		{"half a gzip", pack(t, "gzip", "email\na@x.org\n")[:20], Options{}, Unacceptable, 0, "gzip data is damaged"},
		{"half a zip", pack(t, "zip", "email\na@x.org\n")[:40], Options{}, Unacceptable, 0, "zip data is damaged"},
		{"two files in a zip", pack(t, "zip", "email\na@x.org\n", "email\n"), Options{}, Unacceptable, 0,
			"more than one file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(strings.NewReader(c.in), c.o)
			var refusal *Error
			require.ErrorAs(t, err, &refusal)
			require.Contains(t, refusal.Detail, c.says)
			require.Equal(t, c.kind, refusal.Kind)
			require.Equal(t, c.line, refusal.Line)
		})
	}
}

func TestPackings(t *testing.T) {
	const text = "email,n\na@x.org,1\nb@x.org,2\n"
	utf16, err := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(text)
	require.NoError(t, err)
	for name, in := range map[string]string{
		"gzip": pack(t, "gzip", text), "zstd": pack(t, "zstd", text), "zip": pack(t, "zip", text),
		"stored": pack(t, "stored", text), "utf-16": utf16,
		"gzip of utf-16": pack(t, "gzip", utf16),
	} {
		got, err := read(iotest.HalfReader(strings.NewReader(in)), Options{})
		d, emails, out := got.dialect, got.emails, got.out
		require.NoError(t, err, name)
		require.Equal(t, []string{"a@x.org", "b@x.org"}, emails, name)
		require.Equal(t, "email,n,ours\na@x.org,1,x\nb@x.org,2,x\n", out, name)
		require.Equal(t, strings.Contains(name, "16"), d.Encoding == UTF16, name)
	}
}

func TestBrokenUploadIsNoFileError(t *testing.T) {
	broken := errors.New("connection reset")
	for _, how := range []string{"plain", "gzip", "zstd", "zip"} {
		in := pack(t, how, "email\n"+strings.Repeat("abcdefgh@x.org\n", 50))
		src := io.MultiReader(strings.NewReader(in[:len(in)*2/3]), iotest.ErrReader(broken))
		_, err := read(src, Options{})
		require.ErrorIs(t, err, broken, how)
	}
}

func TestAppendCell(t *testing.T) {
	d := Dialect{Delimiter: ','}
	for in, want := range map[string]string{
		"": "", "a": "a", "a,b": `"a,b"`, `a"b`: `"a""b"`, "=1": "'=1", "-a,b": `"'-a,b"`, "\tx": "'\tx", "@x": "'@x",
		"a\nb": "\"a\nb\"",
	} {
		require.Equal(t, want, string(d.AppendCell(nil, in)))
	}
}

func pack(t testing.TB, how string, texts ...string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch how {
	case "plain":
		return texts[0]
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	case "zip", "stored":
		return packZip(t, how, texts)
	}
	_, err := io.WriteString(w, texts[0])
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func packZip(t testing.TB, how string, texts []string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, text := range texts {
		var w io.Writer
		var err error
		if how == "stored" {
			w, err = z.CreateRaw(&zip.FileHeader{Name: "a.csv", Method: zip.Store, CompressedSize64: uint64(len(text)),
				UncompressedSize64: uint64(len(text)), CRC32: crc32.ChecksumIEEE([]byte(text))})
		} else {
			w, err = z.Create("a.csv")
		}
		require.NoError(t, err)
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.String()
}

// FuzzFile: no file makes the package panic, and the output has the cells of the input, as another CSV reader sees
// them.
func FuzzFile(f *testing.F) {
	f.Add([]byte("email,n\na@x.org,\"1\n2\"\n\nb\r\n"), "", false)
	f.Add([]byte("sep=;\nemail;n\na;b;c\n"), "1", true)
	f.Add([]byte(pack(f, "zip", "email\na@x.org\n")), "", false)
	f.Add([]byte(pack(f, "gzip", "email\na@x.org\n")), "", false)
	f.Add([]byte("\xff\xfee\x00\n\x00a\x00"), "1", false)
	f.Fuzz(func(t *testing.T, in []byte, column string, noHeader bool) {
		got, err := read(bytes.NewReader(in), Options{Column: column, NoHeader: noHeader})
		d, emails, out := got.dialect, got.emails, got.out
		if err != nil {
			return
		}
		gotAgain, err := read(strings.NewReader(out), Options{Column: column, NoHeader: noHeader})
		again, emailsAgain := gotAgain.dialect, gotAgain.emails
		if err == nil && again.Delimiter == d.Delimiter && again.Column == d.Column && again.Encoding == UTF8 {
			require.Equal(t, emails, emailsAgain)
		}
		file, free, err := unpack(bufio.NewReader(bytes.NewReader(in)))
		require.NoError(t, err)
		defer free()
		plain, err := io.ReadAll(file)
		require.NoError(t, err)
		if d.Encoding == UTF8 && d.Delimiter == ',' && !bytes.Contains(plain, []byte("\r")) {
			sameCells(t, string(plain), out)
		}
	})
}

// sameCells compares with encoding/csv if that reads both; it drops empty lines and is stricter about quotes.
func sameCells(t *testing.T, in, out string) {
	theirs, err := csvRows(in)
	if err != nil {
		return
	}
	ours, err := csvRows(out)
	if err != nil || len(ours) != len(theirs) {
		return
	}
	for i := range theirs {
		require.Equal(t, theirs[i], ours[i][:len(theirs[i])])
	}
}

func csvRows(s string) ([][]string, error) {
	r := csv.NewReader(strings.NewReader(s))
	r.FieldsPerRecord = -1
	return r.ReadAll()
}

func BenchmarkPlainRows(b *testing.B) {
	var in strings.Builder
	in.WriteString("id,first,email,city\n")
	const rows = 100_000
	for range rows {
		in.WriteString("184467,Annabella,annabella.richter@alder-forge.example,Braunschweig\n")
	}
	b.SetBytes(int64(in.Len()))
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewReader(strings.NewReader(in.String()), Options{})
		require.NoError(b, err)
		var block Block
		for r.Next(&block) == nil {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

// Reading the text of a quoted cell must not write into the block, wherever a plain cell was read before it.
func TestEmailDoesNotChangeTheBlock(t *testing.T) {
	const in = "email,n\nplain@x.org,1\n\"quoted \"\"twice\"\" @x.org, and longer than the first\",2\nlast@x.org,3\n"
	got, err := read(strings.NewReader(in), Options{})
	out := got.out
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(strings.ReplaceAll(in, "\n", ",x\n"), "email,n,x", "email,n,ours"), out)
}
