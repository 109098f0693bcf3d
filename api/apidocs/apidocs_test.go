package apidocs

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestDescriptionIsForCustomers: what is only for admins and the dashboard is not in it.
func TestDescriptionIsForCustomers(t *testing.T) {
	whole, err := os.ReadFile("../openapi.json")
	require.NoError(t, err)
	description, err := Description(whole, "")
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
	}
	text := string(description.Body)
	for kind, components := range shown.Components {
		for name := range components {
			if kind != "securitySchemes" {
				require.Contains(t, text, `"#/components/`+kind+"/"+name+`"`, "it is used nowhere")
			}
		}
	}
}

// TestPageOfProgramWithoutNode: it leads to the description, and the policy of either page allows no script in it.
func TestPageOfProgramWithoutNode(t *testing.T) {
	page, err := Page(fstest.MapFS{})
	require.NoError(t, err)
	require.Contains(t, string(page.Body), `href="/openapi.json"`)
	require.NotContains(t, string(page.Body), "<script")
	built, err := Page(fstest.MapFS{"dist/docs.html": {Data: []byte("<p>drawn")}})
	require.NoError(t, err)
	require.Equal(t, "<p>drawn", string(built.Body))
	for _, p := range []string{page.Policy, built.Policy} {
		require.Contains(t, p, "default-src 'none'; script-src 'self';")
		require.NotContains(t, p, "http")
	}
}

// TestDescriptionNamesItsServer: a client that is made from the served description calls the server that clients reach.
func TestDescriptionNamesItsServer(t *testing.T) {
	whole, err := os.ReadFile("../openapi.json")
	require.NoError(t, err)
	const public = "https://verify.example.org"
	for publicURL, want := range map[string]string{"": "/", public: public} {
		description, err := Description(whole, publicURL)
		require.NoError(t, err)
		var shown struct{ Servers []struct{ URL string } }
		require.NoError(t, json.Unmarshal(description.Body, &shown))
		require.Len(t, shown.Servers, 1)
		require.Equal(t, want, shown.Servers[0].URL)
	}
}
