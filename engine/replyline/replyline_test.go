package replyline

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// read reads the lines of a reply until one ends it.
func read(lines []string) (code int, texts []string, whole bool) {
	var p Parser
	for _, line := range lines {
		text, more, ok := Parse(&p, line)
		if !ok {
			return 0, nil, false
		}
		texts = append(texts, text)
		if !more {
			return p.Code, texts, true
		}
	}
	return p.Code, texts, false
}

func TestLinesOfCarelessServers(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		code  int
		texts []string
	}{
		"one line":           {[]string{"250 ok"}, 250, []string{"ok"}},
		"code alone":         {[]string{"250"}, 250, []string{""}},
		"tab":                {[]string{"550\tno"}, 550, []string{"no"}},
		"no space":           {[]string{"550no"}, 550, []string{"no"}},
		"white space first":  {[]string{"  550 no"}, 550, []string{"no"}},
		"bytes of a charset": {[]string{"550\xb2\xbb"}, 550, []string{"\xb2\xbb"}},
		"text without code": {[]string{"550-no", "such user", "", "550 bye"}, 550,
			[]string{"no", "such user", "", "bye"}},
		"number in the text": {[]string{"550-at most", "2000 a day", "550 bye"}, 550,
			[]string{"at most", "2000 a day", "bye"}},
		"refusal at last": {[]string{"220-wait", "421 go"}, 421, []string{"wait", "go"}},
		"refusal on the way": {[]string{"220-wait", "554-no", "554 service"}, 554,
			[]string{"wait", "no", "service"}},
		"acceptance is text":     {[]string{"550-no", "250 ok", "550 bye"}, 550, []string{"no", "250 ok", "bye"}},
		"another refusal counts": {[]string{"550-no", "450 later"}, 450, []string{"no", "later"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, texts, whole := read(tt.lines)
			require.True(t, whole)
			require.Equal(t, tt.code, code)
			require.Equal(t, tt.texts, texts)
		})
	}
	for _, line := range []string{"", "hello", "25 x", "150 x", "600 x", "2500 x", "HTTP/1.1 400"} {
		_, _, ok := Parse(&Parser{}, line)
		require.False(t, ok, line)
	}
}

// FuzzParse: a reply of any lines has a code of 200 to 599, is never less of a refusal than its first line, and loses
// no text; escaped, it is read alike.
func FuzzParse(f *testing.F) {
	f.Add("220-wait\n521 go")
	f.Add("550-a\nb\n 550c\n250 d\n550 e")
	f.Add("550 \xb2\xbb\xb4\xe6")
	f.Fuzz(func(t *testing.T, raw string) {
		lines := strings.Split(raw, "\n")
		code, texts, whole := read(lines)
		first, _, ok := Code(lines[0])
		if !ok {
			require.Zero(t, code)
			return
		}
		require.True(t, 200 <= code && code <= 599)
		require.True(t, code == first || code >= 400, "%d became %d", first, code)
		for i, text := range texts {
			require.True(t, strings.HasSuffix(lines[i], text))
		}
		escaped := make([]string, len(lines))
		for i, line := range lines {
			escaped[i] = Escape(line)
			require.True(t, utf8.ValidString(escaped[i]))
			if !strings.Contains(escaped[i], "\ufffd") && !utf8.ValidString(line) {
				require.Equal(t, line, Unescape(escaped[i]))
			}
		}
		escapedCode, _, escapedWhole := read(escaped)
		require.Equal(t, code, escapedCode)
		require.Equal(t, whole, escapedWhole)
	})
}
