package charset

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"probity/engine"
	"probity/engine/replyline"
)

// received is a reply as a session returns it.
func received(t *testing.T, in encoding.Encoding, code int, text string) engine.Reply {
	t.Helper()
	raw, err := in.NewEncoder().String(text)
	require.NoError(t, err, text)
	require.False(t, utf8.ValidString(raw), "%q is UTF-8 too", raw)
	return engine.Reply{Stage: engine.StageRcpt, Code: code, Lines: []string{replyline.Escape(raw)}}
}

// texts are ordinary words of a mail server in the charsets of the languages in which they are written.
var texts = []struct {
	text string
	in   []encoding.Encoding
}{
	{"用户不存在", []encoding.Encoding{simplifiedchinese.GBK, simplifiedchinese.GB18030}},
	{"收件人的邮箱已被停用，请联系管理员", []encoding.Encoding{simplifiedchinese.GBK}},
	{"使用者不存在", []encoding.Encoding{traditionalchinese.Big5}},
	{"ユーザーが見つかりません", []encoding.Encoding{japanese.ShiftJIS, japanese.EUCJP}},
	{"사용자를 찾을 수 없습니다", []encoding.Encoding{korean.EUCKR}},
	{"пользователь не найден", []encoding.Encoding{charmap.KOI8R, charmap.KOI8U, charmap.Windows1251,
		charmap.ISO8859_5}},
	{"Empfänger unbekannt", []encoding.Encoding{charmap.Windows1252, charmap.ISO8859_1, charmap.ISO8859_15}},
	{"cet utilisateur n'existe pas ici, désolé", []encoding.Encoding{charmap.Windows1252, charmap.ISO8859_1}},
	{"o usuário não existe", []encoding.Encoding{charmap.ISO8859_1}},
	{"Uživatel nebyl nalezen", []encoding.Encoding{charmap.ISO8859_2, charmap.Windows1250}},
	{"Ο χρήστης δεν υπάρχει", []encoding.Encoding{charmap.ISO8859_7, charmap.Windows1253}},
	{"kullanıcı bulunamadı", []encoding.Encoding{charmap.ISO8859_9, charmap.Windows1254}},
	{"המשתמש לא קיים", []encoding.Encoding{charmap.ISO8859_8, charmap.Windows1255}},
	{"المستخدم غير موجود", []encoding.Encoding{charmap.ISO8859_6, charmap.Windows1256}},
	{"ไม่พบผู้ใช้", []encoding.Encoding{charmap.Windows874}},
}

// TestNationalCharsetsAreAmongTheReadings: the true text is always one of those that are classified, and so is a rule's
// chance.
func TestNationalCharsetsAreAmongTheReadings(t *testing.T) {
	for _, tt := range texts {
		for _, in := range tt.in {
			r := received(t, in, 550, "5.1.1 "+tt.text)
			var read []string
			all := readings(r.Lines)
			for _, reading := range all[:min(len(all), maxReadings)] {
				read = append(read, reading.lines[0])
			}
			require.Contains(t, read, "5.1.1 "+tt.text, "%v", in)
		}
	}
}

// TestReadingWithARuleCounts: the same finding as in UTF-8, and the text is shown as it was meant.
func TestReadingWithARuleCounts(t *testing.T) {
	table := engine.DefaultTable()
	ruled := 0
	for _, tt := range texts {
		plain := engine.Reply{Stage: engine.StageRcpt, Code: 550, Lines: []string{tt.text}}
		want := table.Classify(nil, plain, engine.SenderIdentity{})
		if strings.HasPrefix(want.Rule, "default/") {
			continue // no rule knows these words yet
		}
		ruled++
		for _, in := range tt.in {
			got, found := Read(table, nil, received(t, in, 550, tt.text), engine.SenderIdentity{})
			require.Equal(t, want, found, "%s in %v", tt.text, in)
			require.Equal(t, tt.text, got.Lines[0], "%v", in)
		}
	}
	require.Greater(t, ruled, 5)
}

// TestEnglishWordsAreReadInAnyCharset: a name in the charset of its country next to words that everyone reads.
func TestEnglishWordsAreReadInAnyCharset(t *testing.T) {
	table := engine.DefaultTable()
	for _, tt := range texts {
		for _, in := range tt.in {
			got, found := Read(table, nil, received(t, in, 550, "5.1.1 User unknown ("+tt.text+")"),
				engine.SenderIdentity{})
			require.Contains(t, []engine.Meaning{engine.NoMailbox, engine.MailboxDisabled}, found.Meaning, "%s in %v",
				tt.text, in)
			require.False(t, replyline.IsEscaped(got.Lines[0]))
		}
	}
}

// TestPlainRepliesAreUntouched: ASCII and UTF-8, also where UTF-8 is cut off within a character, without an allocation.
func TestPlainRepliesAreUntouched(t *testing.T) {
	table := engine.DefaultTable()
	for _, text := range []string{"5.1.1 no such user", "用户不存在", ""} {
		require.Equal(t, text, replyline.Escape(text))
		r := engine.Reply{Stage: engine.StageRcpt, Code: 550, Lines: []string{text}}
		got, found := Read(table, nil, r, engine.SenderIdentity{})
		require.Equal(t, r, got)
		require.Equal(t, table.Classify(nil, r, engine.SenderIdentity{}), found)
	}
	require.Equal(t, "用户不存\ufffd", replyline.Escape("用户不存在"[:14]))
	r := engine.Reply{Stage: engine.StageRcpt, Code: 550, Lines: []string{"5.1.1 no such user"}}
	require.Zero(t, testing.AllocsPerRun(100, func() { Read(table, nil, r, engine.SenderIdentity{}) }))
}

// TestReadingsAreBounded: of a flood only the escaped bytes are kept, and the reply is classified as it came.
func TestReadingsAreBounded(t *testing.T) {
	r := engine.Reply{Stage: engine.StageRcpt, Code: 550,
		Lines: []string{replyline.Escape(strings.Repeat("\xff\xb0\xa1", maxBytes))}}
	got, found := Read(engine.DefaultTable(), nil, r, engine.SenderIdentity{})
	require.Equal(t, r, got)
	require.Equal(t, engine.MeaningUnknown, found.Meaning)
}

// FuzzRead: any bytes are escaped without loss, read as printable UTF-8, and never condemn more than one of the bounded
// readings does.
func FuzzRead(f *testing.F) {
	table := engine.DefaultTable()
	for _, tt := range texts {
		raw, _ := tt.in[0].NewEncoder().String(tt.text)
		f.Add(550, raw)
	}
	f.Add(250, "\xff\xfe")
	f.Add(450, "user \x80\uf7ff unknown")
	f.Fuzz(func(t *testing.T, code int, raw string) {
		escaped := replyline.Escape(raw)
		require.True(t, utf8.ValidString(escaped))
		if !utf8.ValidString(raw) && !strings.Contains(escaped, "\ufffd") {
			require.Equal(t, raw, replyline.Unescape(escaped))
		}
		r := engine.Reply{Stage: engine.StageRcpt, Code: 200 + (code%400+400)%400, Lines: []string{escaped}}
		got, found := Read(table, nil, r, engine.SenderIdentity{})
		require.Len(t, got.Lines, 1)
		require.True(t, utf8.ValidString(got.Lines[0]))
		require.Equal(t, table.Classify(nil, got, engine.SenderIdentity{}), found)
	})
}

func BenchmarkReadGBK(b *testing.B) {
	table := engine.DefaultTable()
	raw, _ := simplifiedchinese.GBK.NewEncoder().String("用户不存在")
	r := engine.Reply{Stage: engine.StageRcpt, Code: 550, Lines: []string{replyline.Escape(raw)}}
	for b.Loop() {
		Read(table, nil, r, engine.SenderIdentity{})
	}
}
