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

// TestWordsStayInBounds: normalising may lengthen letters of other scripts, but never beyond the bound by more than
// one.
func TestWordsStayInBounds(t *testing.T) {
	words := AppendWords([]byte{' '}, strings.Repeat("邮", 10_000))
	require.Less(t, len(words), maxWords+8)
}
