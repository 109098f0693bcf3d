package described

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/api/httpd"
)

func TestRequestsOfADescription(t *testing.T) {
	all, err := Requests([]byte(`{
		"paths": {
			"/users/{user}": {
				"parameters": [{"name": "user", "in": "path"}, {"name": "lang", "in": "query"}],
				"get": {"parameters": [{"$ref": "#/components/parameters/Limit"}, {"name": "Range", "in": "header"}]},
				"put": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/User"}}}}}
			},
			"/reports": {"post": {"requestBody": {"content": {"text/csv": {"schema": {}}, "application/json": {"schema": {"properties": {"reports": {
				"items": {"$ref": "#/components/schemas/Limits"}}}}}}}}},
			"/files": {"post": {"requestBody": {"content": {"multipart/form-data": {"schema": {"properties": {"file": {}, "name": {}}}}}}}}
		},
		"components": {
			"parameters": {"Limit": {"name": "limit", "in": "query"}},
			"schemas": {
				"User": {"properties": {"limits": {"$ref": "#/components/schemas/Limits"}, "email": {}, "notes": {"type": "object"}}},
				"Limits": {"properties": {"a_minute": {}}}
			}
		}
	}`))
	require.NoError(t, err)
	limits := &httpd.Fields{Names: []string{"a_minute"}, Nested: map[string]*httpd.Fields{}}
	require.Equal(t, map[string]httpd.Content{
		"GET /users/{user}": {Query: []string{"lang", "limit"}},
		"PUT /users/{user}": {Query: []string{"lang"}, Body: httpd.BodyJSON,
			Fields: &httpd.Fields{Names: []string{"email", "limits", "notes"},
				Nested: map[string]*httpd.Fields{"limits": limits}}},
		"POST /reports": {Body: httpd.BodyJSON, CSV: true,
			Fields: &httpd.Fields{Names: []string{"reports"}, Nested: map[string]*httpd.Fields{"reports": limits}}},
		"POST /files": {Body: httpd.BodyForm, Fields: &httpd.Fields{Names: []string{"file", "name"},
			Nested: map[string]*httpd.Fields{}}},
	}, all)
}

func TestDescriptionsThatCannotBeServed(t *testing.T) {
	for description, problem := range map[string]string{
		`{`: "unexpected end",
		`{"paths": {"/x": {"get": {"parameters": [{"$ref": "#/components/parameters/None"}]}}}}`:                                                "GET /x",
		`{"paths": {"/x": {"post": {"requestBody": {"content": {"text/csv": {}}}}}}}`:                                                           "text/csv",
		`{"paths": {"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/None"}}}}}}}}`:    "schemas/None",
		`{"paths": {"/x": {"post": {"requestBody": {"content": {"application/json": {"schema": {"properties": {"a": {"$ref": "/None"}}}}}}}}}}`: "/None",
	} {
		_, err := Requests([]byte(description))
		require.ErrorContains(t, err, problem)
	}
}
