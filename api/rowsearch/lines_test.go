package rowsearch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowNumber(t *testing.T) {
	for line, want := range map[string]int64{`{"row":12,"email":"a@b.c"}`: 12, `{"row":5000000,"x":1}`: 5000000,
		`{}`: 0, ``: 0} {
		require.Equal(t, want, rowNumber([]byte(line)), line)
	}
}

// An address can contain text that looks like a key: its quotes are escaped, so it does not match.
func TestTextAfter(t *testing.T) {
	line := []byte(`{"row":1,"email":"\",\"status\":\"VALID\"@x","status":"INVALID","smtp_provider":"GMX / WEB.DE"}`)
	require.Equal(t, "INVALID", textAfter(line, `,"status":"`))
	require.Equal(t, "GMX / WEB.DE", textAfter(line, `,"smtp_provider":"`))
	require.Empty(t, textAfter(line, `,"none":"`))
}
