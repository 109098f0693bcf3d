package listform

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A file name is what it looks like: characters that reverse it, are invisible or end its line are dropped.
func TestFilenamesAreSanitized(t *testing.T) {
	for sent, want := range map[string]string{
		"list.csv": "list.csv", "Kunden – März (2).csv": "Kunden – März (2).csv", "名簿.csv": "名簿.csv",
		"list\u202evsc.exe": "listvsc.exe", "a\u200bb\u200e\u2066\ufeff\u00ad.csv": "ab.csv",
		"a\u2028b\u2029\x00\x1b[2J\r\n.csv": "ab[2J.csv",
		`C:\Users\ann\list.csv`:             "list.csv", "../../etc/passwd": "passwd", "\u202e": "",
	} {
		require.Equal(t, want, CleanFilename(sent), "%q", sent)
	}
}
