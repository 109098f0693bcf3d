package described

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"probity/api/httpd"
)

// description is the part of an OpenAPI description that says what requests contain.
type description struct {
	Paths      map[string]pathItem
	Components struct {
		Parameters map[string]parameter
		Schemas    map[string]schema
	}
}

type pathItem struct {
	Parameters                             []parameter // of all its operations
	Get, Put, Post, Patch, Delete, Options *operation
}

type operation struct {
	Parameters  []parameter
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string
	In   string
}

type schema struct {
	Ref        string `json:"$ref"`
	Properties map[string]schema
	Items      *schema // of a list
}

// csvType is a media type that a body may have instead of JSON.
const csvType = "text/csv"

// bodyKinds are the media types of other bodies that the server reads.
var bodyKinds = map[string]httpd.BodyKind{"application/json": httpd.BodyJSON, "multipart/form-data": httpd.BodyForm,
	"application/offset+octet-stream": httpd.BodyPiece}

// Requests returns what the requests of each operation may contain, by method and path, such as "GET /v1/credits".
// The description is OpenAPI in JSON.
func Requests(openapi []byte) (map[string]httpd.Content, error) {
	var d description
	if err := json.Unmarshal(openapi, &d); err != nil {
		return nil, fmt.Errorf("description: %w", err)
	}
	all := make(map[string]httpd.Content)
	for path, item := range d.Paths {
		operations := map[string]*operation{
			"GET": item.Get, "PUT": item.Put, "POST": item.Post, "PATCH": item.Patch, "DELETE": item.Delete,
			"OPTIONS": item.Options,
		}
		for method, o := range operations {
			if o == nil {
				continue
			}
			content, err := d.content(slices.Concat(item.Parameters, o.Parameters), o)
			if err != nil {
				return nil, fmt.Errorf("description of %s %s: %w", method, path, err)
			}
			all[method+" "+path] = content
		}
	}
	return all, nil
}

func (d *description) content(parameters []parameter, o *operation) (c httpd.Content, err error) {
	for _, p := range parameters {
		if p.Ref != "" {
			target, known := d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
			if !known {
				return c, fmt.Errorf("a parameter refers to %q, which is not there", p.Ref)
			}
			p = target
		}
		if p.In == "query" {
			c.Query = append(c.Query, p.Name)
		}
	}
	for mediaType, body := range o.RequestBody.Content {
		if mediaType == csvType {
			c.CSV = true
			continue
		}
		kind, known := bodyKinds[mediaType]
		if !known {
			return c, fmt.Errorf("bodies of type %s are not read", mediaType)
		}
		c.Body = kind
		c.Fields, err = d.fields(body.Schema)
	}
	if c.CSV && c.Body != httpd.BodyJSON {
		return c, fmt.Errorf("a body of type %s is read only in place of JSON", csvType)
	}
	return c, err
}

// fields returns the names that an object of the schema may have, or each of a list of objects; nil if the schema lists
// none.
func (d *description) fields(s schema) (*httpd.Fields, error) {
	if s.Ref != "" {
		target, known := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		if !known {
			return nil, fmt.Errorf("a schema refers to %q, which is not there", s.Ref)
		}
		s = target
	}
	if s.Items != nil {
		return d.fields(*s.Items)
	}
	if s.Properties == nil {
		return nil, nil
	}
	f := &httpd.Fields{Names: slices.Sorted(maps.Keys(s.Properties)), Nested: make(map[string]*httpd.Fields)}
	for name, property := range s.Properties {
		nested, err := d.fields(property)
		if err != nil {
			return nil, err
		}
		if nested != nil {
			f.Nested[name] = nested
		}
	}
	return f, nil
}
