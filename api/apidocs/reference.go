package apidocs

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"probity/api/httpd"
)

//go:embed docs.html
var docsTemplate string

//go:embed docs.css
var docsStyle string

// docNode is a part of the description.
type docNode map[string]any

func (n docNode) text(key string) string {
	s, _ := n[key].(string)
	return s
}

func (n docNode) child(key string) docNode {
	m, _ := n[key].(map[string]any)
	return m
}

func (n docNode) list(key string) []docNode {
	items, _ := n[key].([]any)
	var list []docNode
	for _, i := range items {
		m, _ := i.(map[string]any)
		list = append(list, m)
	}
	return list
}

// The reference as docs.html shows it.
type (
	reference struct {
		Title, About string
		Style        template.CSS
		Tags         []chapter
	}
	chapter struct {
		Name, About string
		Operations  []operation
	}
	operation struct {
		ID, Method, Path, Summary, About, Access string
		Parameters, Fields                       []parameter
		Bodies, Answers                          []answer
	}
	parameter struct {
		Name, In, Type, About string
		Required              bool
	}
	answer struct {
		Status, About string
		Examples      []sample
	}
	sample struct{ Name, JSON string }
)

// methodOrder is the order of the operations of one path.
var methodOrder = []string{"get", "post", "put", "delete", "options"}

// Build makes the pages /docs and /openapi.json from the whole description, as JSON.
func Build(whole []byte) (docs, description httpd.Page, err error) {
	root, err := publicDescription(whole)
	if err != nil {
		return httpd.Page{}, httpd.Page{}, fmt.Errorf("openapi.json: %w", err)
	}
	shown, err := json.MarshalIndent(root, "", " ")
	if err != nil {
		return httpd.Page{}, httpd.Page{}, fmt.Errorf("openapi.json: %w", err)
	}
	d := docsBuilder{root}
	var b bytes.Buffer
	t, err := template.New("docs").Parse(docsTemplate)
	if err == nil {
		err = t.Execute(&b, d.reference())
	}
	if err != nil {
		return httpd.Page{}, httpd.Page{}, fmt.Errorf("docs: %w", err)
	}
	docs = httpd.NewPage(b.Bytes(), "text/html; charset=utf-8")
	sum := sha256.Sum256([]byte(docsStyle))
	docs.Policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
	return docs, httpd.NewPage(append(shown, '\n'), "application/json"), nil
}

// docsBuilder turns the description into the reference.
type docsBuilder struct{ root docNode }

// resolveRef returns the node that a reference points to, or the node itself.
func (d docsBuilder) resolveRef(n docNode) docNode {
	for n.text("$ref") != "" {
		at := d.root
		for part := range strings.SplitSeq(strings.TrimPrefix(n.text("$ref"), "#/"), "/") {
			at = at.child(part)
		}
		n = at
	}
	return n
}

func (d docsBuilder) reference() reference {
	info := d.root.child("info")
	r := reference{Title: info.text("title") + ": " + info.text("summary"), About: info.text("description"),
		Style: template.CSS(docsStyle)}
	for _, t := range d.root.list("tags") {
		r.Tags = append(r.Tags, chapter{Name: t.text("name"), About: t.text("description")})
	}
	paths := d.root.child("paths")
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		item := paths.child(p)
		for _, method := range methodOrder {
			op := item.child(method)
			tags, _ := op["tags"].([]any)
			if len(tags) == 0 {
				continue
			}
			if i := slices.IndexFunc(r.Tags, func(c chapter) bool { return c.Name == tags[0] }); i >= 0 {
				r.Tags[i].Operations = append(r.Tags[i].Operations, d.operation(method, p, item, op))
			}
		}
	}
	return r
}

func (d docsBuilder) operation(method, path string, item, op docNode) operation {
	o := operation{ID: op.text("operationId"), Method: strings.ToUpper(method), Path: path, Summary: op.text("summary"),
		About:  op.text("description"),
		Access: "With an API key"}
	if _, own := op["security"]; own {
		o.Access = "Without a key"
	}
	for _, p := range slices.Concat(item.list("parameters"), op.list("parameters")) {
		p = d.resolveRef(p)
		required, _ := p["required"].(bool)
		o.Parameters = append(o.Parameters, parameter{p.text("name"), p.text("in"), d.typeOf(p.child("schema")),
			p.text("description"), required})
	}
	content := op.child("requestBody").child("content")
	for _, kind := range slices.Sorted(maps.Keys(content)) {
		media := content.child(kind)
		o.Fields = d.fields(media.child("schema"))
		o.Bodies = append(o.Bodies, answer{Status: kind, Examples: d.samples(media)})
	}
	responses := op.child("responses")
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		response := d.resolveRef(responses.child(status))
		a := answer{Status: status, About: response.text("description")}
		content := response.child("content")
		for _, kind := range slices.Sorted(maps.Keys(content)) {
			a.Examples = append(a.Examples, d.samples(content.child(kind))...)
		}
		o.Answers = append(o.Answers, a)
	}
	return o
}

func (d docsBuilder) samples(media docNode) []sample {
	var list []sample
	examples := media.child("examples")
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		b, err := json.MarshalIndent(d.resolveRef(examples.child(name))["value"], "", "  ")
		if err == nil {
			list = append(list, sample{name, string(b)})
		}
	}
	return list
}

// fields are the members of an object.
func (d docsBuilder) fields(schema docNode) []parameter {
	schema = d.resolveRef(schema)
	required, _ := schema["required"].([]any)
	properties := schema.child("properties")
	var list []parameter
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties.child(name)
		list = append(list, parameter{Name: name, Type: d.typeOf(p), About: d.resolveRef(p).text("description"),
			Required: slices.Contains(required, any(name))})
	}
	return list
}

// typeOf describes a schema in a few words.
func (d docsBuilder) typeOf(schema docNode) string {
	schema = d.resolveRef(schema)
	words := fmt.Sprint(schema["type"])
	if many, ok := schema["type"].([]any); ok {
		words = strings.Trim(strings.ReplaceAll(fmt.Sprint(many), " ", " or "), "[]")
	}
	if enum, ok := schema["enum"].([]any); ok {
		words += ": " + strings.Trim(fmt.Sprint(enum), "[]")
	}
	if least, ok := schema["minimum"]; ok {
		words += fmt.Sprintf(", at least %v", least)
	}
	if most, ok := schema["maximum"]; ok {
		words += fmt.Sprintf(", at most %.0f", most)
	}
	if fallback, ok := schema["default"]; ok {
		words += fmt.Sprintf(", default %v", fallback)
	}
	return words
}
