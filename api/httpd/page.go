package httpd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/valyala/fasthttp"
)

// Page is a static document.
type Page struct {
	Body   []byte
	kind   string
	Tag    string
	Policy string // Content-Security-Policy, empty for none
}

// NewPage makes a page with a strong tag.
func NewPage(body []byte, kind string) Page {
	sum := sha256.Sum256(body)
	return Page{Body: body, kind: kind, Tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// SendPage serves a page, or 304 if the client has it.
func (c *Call) SendPage(p Page, caching string) error {
	res := &c.Ctx.Response
	res.Header.Set("ETag", p.Tag)
	res.Header.Set("Cache-Control", caching)
	if MatchesETag(string(c.Ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), p.Tag) {
		res.SetStatusCode(StatusNotModified)
		return nil
	}
	if p.Policy != "" {
		res.Header.Set("Content-Security-Policy", p.Policy)
	}
	res.SetStatusCode(StatusOK)
	res.Header.SetContentType(p.kind)
	res.SetBodyRaw(p.Body)
	return nil
}

// MatchesETag compares weakly (RFC 9110, section 13.1.2).
func MatchesETag(header, tag string) bool {
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

// SendBytes answers with JSON.
func (c *Call) SendBytes(status int, body []byte) error {
	res := &c.Ctx.Response
	res.SetStatusCode(status)
	res.Header.SetContentType("application/json")
	res.SetBodyRaw(body)
	return nil
}

// SendJSON answers with a value as JSON.
func (c *Call) SendJSON(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.SendBytes(status, b)
}
