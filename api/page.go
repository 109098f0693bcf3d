package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/valyala/fasthttp"
)

// page is a static document.
type page struct {
	body   []byte
	kind   string
	tag    string
	policy string // Content-Security-Policy, empty for none
}

// newPage makes a page with a strong tag.
func newPage(body []byte, kind string) page {
	sum := sha256.Sum256(body)
	return page{body: body, kind: kind, tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// sendPage serves a page, or 304 if the client has it.
func (c *Call) sendPage(p page, caching string) error {
	res := &c.Ctx.Response
	res.Header.Set("ETag", p.tag)
	res.Header.Set("Cache-Control", caching)
	if matchesETag(string(c.Ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), p.tag) {
		res.SetStatusCode(statusNotModified)
		return nil
	}
	if p.policy != "" {
		res.Header.Set("Content-Security-Policy", p.policy)
	}
	res.SetStatusCode(statusOK)
	res.Header.SetContentType(p.kind)
	res.SetBodyRaw(p.body)
	return nil
}

// matchesETag compares weakly (RFC 9110, section 13.1.2).
func matchesETag(header, tag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for one := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(one), "W/") == strings.TrimPrefix(tag, "W/") {
			return header != ""
		}
	}
	return false
}

// sendBytes answers with JSON.
func (c *Call) sendBytes(status int, body []byte) error {
	res := &c.Ctx.Response
	res.SetStatusCode(status)
	res.Header.SetContentType("application/json")
	res.SetBodyRaw(body)
	return nil
}

// sendJSON answers with a value as JSON.
func (c *Call) sendJSON(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.sendBytes(status, b)
}
