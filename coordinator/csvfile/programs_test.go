package csvfile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
)

// TestExportsOfPrograms reads lists in the form in which each program is documented to export them.
func TestExportsOfPrograms(t *testing.T) {
	both := []string{"ann@shop.example", "bo@shop.example"}
	utf16 := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	for _, c := range []struct {
		program, text string
		charset       encoding.Encoding // nil: UTF-8
		o             Options
		want          Dialect // delimiter, encoding, column and line end
		emails        []string
	}{
		{"Excel for Windows, CSV UTF-8, list separator comma",
			"\ufeffName,email\r\nJosé,ann@shop.example\r\n\"Bo, jr\",bo@shop.example\r\n", nil, Options{},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 1, CRLF: true}, both},
		{"Excel for Windows, CSV UTF-8, list separator semicolon",
			"\ufeffName;E-Mail;Betrag\r\nJörg;ann@shop.example;1,50\r\nBo;bo@shop.example;2,00\r\n", nil,
			Options{Column: "E-Mail"},
			Dialect{Delimiter: ';', Encoding: UTF8, Column: 1, CRLF: true}, both},
		{"Excel for Windows, CSV, western code page",
			"Nom;Prénom;Email\r\nÉlan;Zoë;ann@shop.example\r\nBo;Né;bo@shop.example\r\n", charmap.Windows1252,
			Options{},
			Dialect{Delimiter: ';', Encoding: Windows1252, Column: 2, CRLF: true}, both},
		{"Excel for Windows, Unicode Text", "Имя\tE mail\r\nАня\tann@shop.example\r\nБорис\tbo@shop.example\r\n", utf16,
			Options{},
			Dialect{Delimiter: '\t', Encoding: UTF16, Column: 1, CRLF: true}, both},
		{"Excel for Windows, CSV, Japanese code page",
			"名前,Email,表\r\n能,ann@shop.example,ソ\r\nポ,bo@shop.example,\"十,一\"\r\n",
			japanese.ShiftJIS, Options{},
			Dialect{Delimiter: ',', Encoding: Windows1252, Column: 1, CRLF: true}, both},
		{"Excel for Windows, CSV, Chinese code page", "姓名,Email\r\n王|,ann@shop.example\r\n李,bo@shop.example\r\n",
			simplifiedchinese.GBK, Options{},
			Dialect{Delimiter: ',', Encoding: Windows1252, Column: 1, CRLF: true}, both},
		{"Excel for Windows, CSV, Cyrillic code page",
			"Имя;E-mail\r\nАня;ann@shop.example\r\nБорис;bo@shop.example\r\n",
			charmap.Windows1251, Options{Column: "2"},
			Dialect{Delimiter: ';', Encoding: Windows1252, Column: 1, CRLF: true}, both},
		{"Excel for Windows, a line break in a cell",
			"email,note\r\nann@shop.example,\"one\ntwo\"\r\nbo@shop.example,\r\n",
			nil, Options{},
			Dialect{Delimiter: ',', Encoding: UTF8, CRLF: true}, both},
		{"Excel for Mac, CSV (Macintosh)", "Name,Email\rJosé,ann@shop.example\r\"Zoë, jr\",bo@shop.example\r",
			charmap.Macintosh, Options{},
			Dialect{Delimiter: ',', Encoding: Macintosh, Column: 1, CR: true}, both},
		{"Excel for Mac, CSV (Macintosh), a line break in a cell",
			"email;note\rann@shop.example;\"one\ntwo\"\rbo@shop.example;", nil, Options{},
			Dialect{Delimiter: ';', Encoding: UTF8, CR: true}, both},
		{"LibreOffice Calc, all text cells quoted",
			"\"Name\",\"email\",\"Age\"\n\"Ann\",\"ann@shop.example\",41\n\"Bo\",\"bo@shop.example\",39\n", nil,
			Options{},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 1}, both},
		{"LibreOffice Calc, tab and UTF-16", "Name\temail\nAnn\tann@shop.example\nBo\tbo@shop.example\n", utf16,
			Options{},
			Dialect{Delimiter: '\t', Encoding: UTF16, Column: 1}, both},
		{"Google Sheets", "Timestamp,Email\r\n1/2/2026 10:00:00,ann@shop.example\r\n1/3/2026 10:00:00,bo@shop.example",
			nil,
			Options{},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 1, CRLF: true}, both},
		{"Google Forms",
			"\"Timestamp\",\"Email Address\",\"Comment\"\n\"1\",\"ann@shop.example\",\"x, y\"\n\"2\",\"bo@shop.example\",\"\"\n",
			nil, Options{Column: "email address"},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 1}, both},
		{"Apple Numbers, with the name of the table",
			"Table 1\r\nemail,Name\r\nann@shop.example,Ann\r\nbo@shop.example,Bo\r\n", nil,
			Options{NoHeader: true, Column: "1", Delimiter: ','},
			Dialect{Delimiter: ',', Encoding: UTF8, CRLF: true}, append([]string{"Table 1", "email"}, both...)},
		{"Apple Numbers, semicolon", "Name;Email\r\nAnn;ann@shop.example\r\nBo;bo@shop.example\r\n", nil, Options{},
			Dialect{Delimiter: ';', Encoding: UTF8, Column: 1, CRLF: true}, both},
		{"Outlook",
			"First Name,Last Name,E-mail Address,E-mail Type,Notes\r\nAnn,Muster,ann@shop.example,SMTP,\"a\r\nb\"\r\nBo,,bo@shop.example,SMTP,\r\n",
			nil, Options{Column: "E-mail Address"},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 2, CRLF: true}, both},
		{"Thunderbird",
			"First Name,Last Name,Display Name,Nickname,Primary Email,Secondary Email\n" +
				"Ann,,Ann,,ann@shop.example,\nBo,,\"Bo, jr\",,bo@shop.example,b@x.example\n",
			nil, Options{Column: "5"},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 4}, both},
		{"Google Contacts",
			"First Name,E-mail 1 - Label,E-mail 1 - Value\nAnn,* Work,ann@shop.example\nBo,,bo@shop.example\n",
			nil, Options{Column: "E-mail 1 - Value"},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 2}, both},
		{"HubSpot",
			"\"Record ID\",\"First Name\",\"Email\"\n\"1\",\"Ann\",\"ann@shop.example\"\n\"2\",\"Bo\",\"bo@shop.example\"\n",
			nil, Options{},
			Dialect{Delimiter: ',', Encoding: UTF8, Column: 2}, both},
		{"Mailchimp",
			"\"Email Address\",\"First Name\",TAGS\nann@shop.example,Ann,\"\"\"a\"\",\"\"b\"\"\"\nbo@shop.example,Bo,\n",
			nil, Options{Column: "Email Address"},
			Dialect{Delimiter: ',', Encoding: UTF8}, both},
		{"mysqldump --tab", "1\tann@shop.example\t\\N\n2\tbo@shop.example\ty\n", nil, Options{NoHeader: true},
			Dialect{Delimiter: '\t', Encoding: UTF8, Column: 1}, both},
	} {
		text := c.text
		if c.charset != nil {
			var err error
			text, err = c.charset.NewEncoder().String(c.text)
			require.NoError(t, err, c.program)
		}
		got, err := read(strings.NewReader(text), c.o)
		d, emails, out := got.dialect, got.emails, got.out
		require.NoError(t, err, c.program)
		require.Equal(t, c.emails, emails, c.program)
		require.Equal(t, c.want, Dialect{Delimiter: d.Delimiter, Encoding: d.Encoding, Column: d.Column, CRLF: d.CRLF,
			CR: d.CR}, c.program)
		require.Equal(t, len(c.emails), strings.Count(out, string(d.Delimiter)+"x"), c.program)
	}
}

// TestLinesWithCRKeepThem: each line of the output ends as it did, and cells of other charsets are in UTF-8.
func TestLinesWithCRKeepThem(t *testing.T) {
	got, err := read(strings.NewReader("email,n\ra@x.org,\"1\n2\"\r\r\"b@x.org\",\x8e"), Options{})
	emails, out := got.emails, got.out
	require.NoError(t, err)
	require.Equal(t, []string{"a@x.org", "", "b@x.org"}, emails)
	require.Equal(t, "email,n,ours\ra@x.org,\"1\n2\",x\r,,x\r\"b@x.org\",é,x\r", out)
	for _, text := range []string{"email,n\na@x.org,1\r2\n", "email\r,n\na@x.org,1\n", "email,\"n\r\"\na@x.org,1\n",
		"email,n\r\na@x.org,1\r\n", "email,6\"\r\na@x.org,\r\n"} {
		got, err := read(strings.NewReader(text), Options{Column: "1"})
		d := got.dialect
		require.NoError(t, err, text)
		require.False(t, d.CR, text)
	}
	_, err = read(strings.NewReader("email,n\ra@x.org,\"1\n2\"\rb@x.org,\"3\r"), Options{})
	require.EqualError(t, err,
		"line 3: unclosed quote (no end within 64 KiB): close it, or write \"\" for a quote inside a cell")
}
