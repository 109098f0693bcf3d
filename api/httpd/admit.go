package httpd

import (
	"mime"
	"strings"

	"github.com/valyala/fasthttp"
)

// admit decides about a request by all that is known without its body. A request to a limited path counts from here
// on, whatever its answer.
func (c *Call) admit() error {
	err := checkFraming(&c.Ctx.Request.Header)
	if err != nil {
		return err
	}
	method, path := c.Ctx.Method(), c.Ctx.Request.URI().PathOriginal()
	if c.route = c.server.router.findStatic(method, path); c.route == nil {
		if c.route, c.Param, err = c.server.router.find(string(method), string(path)); err != nil {
			return err
		}
	}
	if err := c.server.Draining(); err != nil && !c.route.WhileDraining {
		return err
	}
	if err := c.route.Admit(c); err != nil {
		return err
	}
	return c.checkPayload()
}

// checkPayload refuses a body by its header.
func (c *Call) checkPayload() error {
	h := &c.Ctx.Request.Header
	if c.route.Body == BodyNone {
		return nil
	}
	if coding := h.Peek(fasthttp.HeaderContentEncoding); len(coding) > 0 && !strings.EqualFold(string(coding), "identity") {
		return Refuse(mediaType, "The body must not have a Content-Encoding: send it plain (a file in a form may be packed).")
	}
	if kind := h.ContentType(); c.route.Body == BodyJSON && string(kind) == "application/json" {
		// What nearly all clients send.
	} else if err := checkType(c.route.Body, string(kind)); err != nil {
		return err
	}
	limit := int64(MaxJSON)
	if c.route.Body == BodyForm {
		limit = c.server.cfg.MaxUpload
	}
	if int64(h.ContentLength()) > limit {
		return Refuse(TooLarge, "The body is over %d bytes: send less.", limit)
	}
	return nil
}

// checkType refuses a Content-Type that is not of a kind of body.
func checkType(want BodyKind, header string) error {
	kind, params, err := mime.ParseMediaType(header)
	if want == BodyForm {
		if kind != "multipart/form-data" {
			return Refuse(mediaType, "The body must be multipart/form-data with a part named file: with curl, use -F file=@list.csv.")
		}
		if err != nil || params["boundary"] == "" {
			return Refuse(Malformed, "The Content-Type has no boundary: let your HTTP client set it.")
		}
		return nil
	}
	if kind != "application/json" || err != nil {
		return Refuse(mediaType, "The body must be JSON: send Content-Type: application/json.")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return Refuse(mediaType, "The body must be UTF-8: send Content-Type: application/json without another charset.")
	}
	return nil
}

// Document reads the request's JSON.
func (c *Call) Document() (*Document, error) {
	b, err := c.body.readAll(c.smallBody[:0])
	if err != nil {
		return nil, err
	}
	return c.jsonBody.parse(b)
}

// StrictDocument is a document that may have only these members.
func (c *Call) StrictDocument(members ...string) (*Document, error) {
	d, err := c.Document()
	if err != nil {
		return nil, err
	}
	return d, d.AllowOnly(members...)
}
