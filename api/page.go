package api

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"

	"github.com/valyala/fasthttp"
)

// page is a static document.
type page struct {
	body   []byte
	kind   string
	tag    string
	policy string // Content-Security-Policy, empty for none
}

//go:embed widget.js
var widgetScript []byte

//go:embed openapi.json
var descriptionJSON []byte

func newPage(body []byte, kind string) page {
	sum := sha256.Sum256(body)
	return page{body: body, kind: kind, tag: `"` + hex.EncodeToString(sum[:12]) + `"`}
}

func (c *call) getWidget() error {
	c.ctx.Response.Header.Set("Cross-Origin-Resource-Policy", "cross-origin")
	return c.sendPage(c.srv.widgetPage, "public, max-age=3600")
}

func (c *call) getDescription() error { return c.sendPage(c.srv.descriptionPage, "public, no-cache") }
func (c *call) getDocs() error        { return c.sendPage(c.srv.docsPage, "public, no-cache") }

// sendPage serves a page, or 304 if the client has it.
func (c *call) sendPage(p page, caching string) error {
	res := &c.ctx.Response
	res.Header.Set("ETag", p.tag)
	res.Header.Set("Cache-Control", caching)
	if matchesETag(string(c.ctx.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), p.tag) {
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
