package phrase

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	for line, want := range map[string]string{
		"User's mailbox DOESN'T exist.":           " users mailbox doesnt exist ",
		"<a.b+c@x.example>: No-Such_User":         " @ no such user ",
		"exist.Please see www.spamhaus.org/q?x=1": " exist please see www.spamhaus.org q x 1 ",
		"5.1.1 said: (#5.1.1)":                    " 5.1.1 said 5.1.1 ",
		"Boîte pleine, Empfänger – größe":         " boite pleine empfanger grosse ",
		"bo\xeete":                                " boite ",
		"":                                        " ",
	} {
		require.Equal(t, want, string(AppendWords([]byte{' '}, line)), line)
	}
}

// TestWordsAreReadWithoutTheirAccents: capitals and careless texts have none, and a letter has one form.
func TestWordsAreReadWithoutTheirAccents(t *testing.T) {
	for line, same := range map[string]string{
		"Δεν υπάρχει χρήστης": "ΔΕΝ ΥΠΑΡΧΕΙ ΧΡΗΣΤΗΣ",
		"Ящик удалён":         "ящик удален",
		"hộp thư không":       "hop thu khong",
		"Căsuța ștearsă":      "casuta stearsa",
		"أُلغي صنـدوق":        "الغی صندوق",
		"كاربري":              "کاربری",
		"قائمة":               "قاىمة",
	} {
		require.Equal(t, string(AppendWords([]byte{' '}, same)), string(AppendWords([]byte{' '}, line)), line)
	}
	for line, other := range map[string]string{"か": "が", "가": "각", "ł": "ш", "и": "e"} {
		require.NotEqual(t, string(AppendWords([]byte{' '}, other)), string(AppendWords([]byte{' '}, line)), line)
	}
}

// TestThaiPhrasesNeedNoSpaces: like the scripts of East Asia, Thai has no spaces between words.
func TestThaiPhrasesNeedNoSpaces(t *testing.T) {
	phrases, err := Parse("(ผู้ใช้|บัญชี) ~ (ไม่มี|ไม่พบ)")
	require.NoError(t, err)
	found := false
	for _, p := range phrases {
		p.Each(AppendWords([]byte{' '}, "ระบบค้นหาบัญชีของท่านแล้วไม่พบในเครื่องนี้"), func([][2]int) { found = true })
	}
	require.True(t, found)
}

// TestWordsStayInBounds: normalising may lengthen letters of other scripts, but never beyond the bound by more than
// one.
func TestWordsStayInBounds(t *testing.T) {
	words := AppendWords([]byte{' '}, strings.Repeat("邮", 10_000))
	require.Less(t, len(words), maxWords+8)
}
