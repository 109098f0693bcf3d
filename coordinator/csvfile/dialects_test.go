package csvfile

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dialectVector is a list with what the dashboard shows of it and sends with it. The tests of the dashboard read the
// same table (api/web/src/upload/dialects.test.ts, api/web/e2e/dialects.mjs).
type dialectVector struct {
	Name        string   `json:"name"`
	Text        string   `json:"text"`
	Base64      []byte   `json:"base64"` // in place of text, where the list is not in UTF-8
	Delimiter   string   `json:"delimiter"`
	Column      int      `json:"column"` // 1-based
	Header      bool     `json:"header"`
	Unaided     bool     `json:"unaided"` // the list needs no options
	EmailColumn string   `json:"email_column"`
	Emails      []string `json:"emails"`
}

// TestDashboardAndServerAgreeOnDialect: with the options that the dashboard sends, the server takes the delimiter and
// the column that it shows; without options the same or none.
func TestDashboardAndServerAgreeOnDialect(t *testing.T) {
	data, err := os.ReadFile("testdata/dialects.json")
	require.NoError(t, err)
	var vectors []dialectVector
	require.NoError(t, json.Unmarshal(data, &vectors))
	require.GreaterOrEqual(t, len(vectors), 16)
	for _, v := range vectors {
		list := v.Text + string(v.Base64)
		sent := Options{Column: v.EmailColumn, NoHeader: !v.Header, Delimiter: v.Delimiter[0]}
		got, err := read(strings.NewReader(list), sent)
		d, emails := got.dialect, got.emails
		require.NoError(t, err, v.Name)
		require.Equal(t, v.Delimiter, string(d.Delimiter), v.Name)
		require.Equal(t, v.Column, d.Column+1, v.Name)
		require.Equal(t, v.Emails, emails, v.Name)
		got, err = read(strings.NewReader(list), Options{})
		d = got.dialect
		require.Equal(t, v.Unaided, err == nil, "%s: %v", v.Name, err)
		if v.Unaided {
			require.Equal(t, v.Delimiter, string(d.Delimiter), v.Name)
			require.Equal(t, v.Column, d.Column+1, v.Name)
		}
	}
}
