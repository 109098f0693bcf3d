package api

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write openapi.json anew from openapi.yaml")

// loadDescription reads openapi.yaml, the source of the description; openapi.json, which is served, must be equal.
func loadDescription(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	require.NoError(t, err)
	return doc
}

func TestDescriptionIsValid(t *testing.T) {
	require.NoError(t, loadDescription(t).Validate(context.Background()))
}

// The licence in the description is the one that is shipped.
func TestDescriptionNamesTheLicence(t *testing.T) {
	text, err := os.ReadFile("../LICENSE")
	require.NoError(t, err)
	require.Contains(t, string(text), "Version 2.0, January 2004")
	require.Contains(t, string(text), "END OF TERMS AND CONDITIONS")
	_, err = os.Stat("../NOTICE")
	require.NoError(t, err)
	l := loadDescription(t).Info.License
	require.Equal(t, "Apache-2.0", l.Name)
	require.Equal(t, "https://www.apache.org/licenses/LICENSE-2.0", l.URL)
	require.Contains(t, string(text), "http://www.apache.org/licenses/LICENSE-2.0")
}

func TestDescriptionInBothForms(t *testing.T) {
	b, err := json.Marshal(loadDescription(t))
	require.NoError(t, err)
	var want bytes.Buffer
	require.NoError(t, json.Indent(&want, b, "", " "))
	want.WriteByte('\n')
	if *rewrite {
		require.NoError(t, os.WriteFile("openapi.json", want.Bytes(), 0o644))
	}
	got, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	require.Equal(t, want.String(), string(got), "openapi.json is not openapi.yaml: go test ./api -run Description -rewrite")
}
