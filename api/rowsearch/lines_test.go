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

func TestRowsAreCountedByProviderAndScore(t *testing.T) {
	tally := NewTally()
	for _, line := range []string{
		`{"row":1,"email":"a@b.c","status":"VALID","score":98,"reason":null,"smtp_provider":"GMX / WEB.DE"}`,
		`{"row":2,"email":"\",\"score\":5@x","status":"VALID","score":100,"reason":null,"smtp_provider":"GMX / WEB.DE"}`,
		`{"row":3,"email":"x","status":"INVALID","score":0,"reason":"invalid_syntax","smtp_provider":""}`,
		`{"row":4,"email":"","status":"","score":null}`,
	} {
		require.NoError(t, tally.Line([]byte(line)))
	}
	require.Equal(t, map[string]map[string]int64{"GMX / WEB.DE": {"VALID": 2}, "": {"INVALID": 1}}, tally.Providers)
	require.Equal(t, [scoreSteps]int64{0: 1, 9: 2}, tally.Scores)
}
