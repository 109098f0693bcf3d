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

// TestDescriptionSuitsGenerators holds what generators of clients stumble over: openapi-typescript makes members with a
// default required in a component, ogen and oapi-codegen give components of different kinds types in one name space,
// merge keys are not YAML 1.2, and a schema without a type is "unknown". tools/generators runs them.
func TestDescriptionSuitsGenerators(t *testing.T) {
	source, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	require.NotContains(t, string(source), "<<:")
	described, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc struct {
		Components map[string]map[string]any
		Paths      map[string]any
	}
	require.NoError(t, json.Unmarshal(described, &doc))
	kinds := map[string]string{}
	for kind, components := range doc.Components {
		for name, component := range components {
			if kind != "headers" && kind != "examples" {
				require.Empty(t, kinds[name], "%s is in %s too", name, kind)
				kinds[name] = kind
			}
			if kind == "schemas" {
				requireTyped(t, "#/components/schemas/"+name, component)
			}
		}
	}
	forEachObject(doc.Components["schemas"], "#/components/schemas", func(at string, o map[string]any) {
		require.NotContains(t, o, "default", at)
	})
	forEachObject(doc.Paths, "#/paths", func(at string, o map[string]any) {
		if schema, ok := o["schema"]; ok {
			requireTyped(t, at, schema)
		}
		headers, _ := o["headers"].(map[string]any)
		for name, header := range headers {
			require.Contains(t, header, "$ref", "%s: the header %s has no name", at, name)
		}
	})
}

// forEachObject calls f with every JSON object in v and where it is.
func forEachObject(v any, at string, f func(at string, o map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		f(at, v)
		for key, inner := range v {
			forEachObject(inner, at+"/"+key, f)
		}
	case []any:
		for _, inner := range v {
			forEachObject(inner, at, f)
		}
	}
}

// requireTyped requires that a schema and its members say what they are.
func requireTyped(t *testing.T, at string, schema any) {
	t.Helper()
	o := schema.(map[string]any)
	says := false
	for _, word := range []string{"type", "$ref", "oneOf", "anyOf", "allOf", "enum", "const"} {
		says = says || o[word] != nil
	}
	require.True(t, says, "%s has no type", at)
	members, _ := o["properties"].(map[string]any)
	for name, member := range members {
		requireTyped(t, at+"/"+name, member)
	}
}
