package spans

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const exampleTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// traceparents are as sent and as read.
var traceparents = map[string]string{
	exampleTraceparent: exampleTraceparent,
	"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
	"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       exampleTraceparent,
	"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": exampleTraceparent,
	"":   "",
	"00": "",
	"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01later":  "",
	"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": "",
	"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":       "",
	"00-00000000000000000000000000000000-b7ad6b7169203331-01":       "",
	"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":       "",
	"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01":       "",
	"00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01":       "",
	"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g":       "",
	"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331":          "",
	" 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":      "",
}

func TestTraceparentsAreChecked(t *testing.T) {
	for sent, read := range traceparents {
		require.Equal(t, read, Canonical(sent), "%q", sent)
	}
}

func FuzzTraceparent(f *testing.F) {
	for sent := range traceparents {
		f.Add(sent)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		read := Canonical(sent)
		if read == "" {
			return
		}
		require.Equal(t, read, Canonical(read), "read again")
		parts := strings.Split(read, "-")
		require.Len(t, parts, 4)
		for i, size := range []int{1, 16, 8, 1} {
			decoded, err := hex.DecodeString(parts[i])
			require.NoError(t, err)
			require.Len(t, decoded, size)
		}
		require.Contains(t, sent, read[2:])
		require.Equal(t, read, ParsePlace(sent).String())
	})
}
