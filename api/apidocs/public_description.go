package apidocs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"probity/api/httpd"
)

// docNode is a part of the description.
type docNode map[string]any

func (n docNode) child(key string) docNode {
	m, _ := n[key].(map[string]any)
	return m
}

// at returns the node that a reference points to.
func (n docNode) at(reference string) docNode {
	for part := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
		n = n.child(part)
	}
	return n
}

// Description makes /openapi.json from the whole description, as JSON. publicURL is how clients reach the server, or
// empty.
func Description(whole []byte, publicURL string) (httpd.Page, error) {
	root, err := publicDescription(whole, publicURL)
	if err != nil {
		return httpd.Page{}, fmt.Errorf("openapi.json: %w", err)
	}
	shown, err := json.MarshalIndent(root, "", " ")
	if err != nil {
		return httpd.Page{}, fmt.Errorf("openapi.json: %w", err)
	}
	return httpd.NewPage(append(shown, '\n'), "application/json"), nil
}

// publicDescription is the public part of the description: the API for customers. The paths for admins and the
// dashboard, and the components that only they use, are left out; openapi.yaml has them all. It names the server at
// publicURL, unless that is empty.
func publicDescription(whole []byte, publicURL string) (root docNode, err error) {
	if err := json.Unmarshal(whole, &root); err != nil {
		return nil, err
	}
	paths := root.child("paths")
	for path := range paths {
		internal := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
		if path == "/" || slices.ContainsFunc([]string{"/v1/admin/", "/v1/dash/", "/app", "/assets/"}, internal) {
			delete(paths, path)
		}
	}
	if publicURL != "" {
		root["servers"] = []any{map[string]any{"url": publicURL}}
	}
	root["security"] = []any{map[string]any{"apiKey": []any{}}}
	tags, _ := root["tags"].([]any)
	root["tags"] = slices.DeleteFunc(tags, func(tag any) bool {
		t, _ := tag.(map[string]any)
		return t["name"] == "Admin" || t["name"] == "Dashboard"
	})
	used := map[string]bool{"#/components/securitySchemes/apiKey": true}
	root.markUsed(map[string]any(paths), used)
	for kind, of := range root.child("components") {
		all, _ := of.(map[string]any)
		for name := range all {
			if !used["#/components/"+kind+"/"+name] {
				delete(all, name)
			}
		}
	}
	return root, nil
}

// markUsed marks what a part of the description refers to, and what that refers to.
func (n docNode) markUsed(part any, used map[string]bool) {
	switch part := part.(type) {
	case map[string]any:
		for key, v := range part {
			if at, ok := v.(string); ok && key == "$ref" && !used[at] {
				used[at] = true
				n.markUsed(map[string]any(n.at(at)), used)
			}
			n.markUsed(v, used)
		}
	case []any:
		for _, v := range part {
			n.markUsed(v, used)
		}
	}
}
