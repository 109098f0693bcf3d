package apidocs

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPagesAreForCustomers: what is only for admins and the dashboard is in neither page.
func TestPagesAreForCustomers(t *testing.T) {
	whole, err := os.ReadFile("../openapi.json")
	require.NoError(t, err)
	docs, description, err := Build(whole)
	require.NoError(t, err)
	var all, shown struct {
		Paths      map[string]any
		Components map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(whole, &all))
	require.NoError(t, json.Unmarshal(description.Body, &shown))
	for path := range all.Paths {
		hidden := path == "/" || strings.HasPrefix(path, "/v1/admin/") || strings.HasPrefix(path, "/v1/dash/") ||
			strings.HasPrefix(path, "/app") || strings.HasPrefix(path, "/assets/")
		require.Equal(t, hidden, shown.Paths[path] == nil, path)
		require.Equal(t, !hidden, strings.Contains(string(docs.Body), ">"+path+"<"), path)
	}
	text := string(description.Body)
	for kind, components := range shown.Components {
		for name := range components {
			if kind != "securitySchemes" {
				require.Contains(t, text, `"#/components/`+kind+"/"+name+`"`, "it is used nowhere")
			}
		}
	}
	require.NotContains(t, string(docs.Body), "<script")
	require.Contains(t, docs.Policy, "default-src 'none'")
	require.NotContains(t, docs.Policy, "script-src")
}
