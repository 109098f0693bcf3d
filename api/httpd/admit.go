package httpd

import (
	"cmp"
	"io"
	"mime"
	"strings"

	"github.com/valyala/fasthttp"
)

// admit decides about a request by all that is known without its body. A request to a limited path counts from here
// on, whatever its answer.
func (c *Call) admit() error {
	h := &c.Ctx.Request.Header
	err := checkFraming(h)
	if err != nil {
		return err
	}
	if c.route, c.Param, err = c.server.router.find(c.Ctx.Method(), c.Ctx.Request.URI().PathOriginal()); err != nil {
		return err
	}
	if err := c.server.Draining(); err != nil && !c.route.WhileDraining {
		return err
	}
	if err := c.route.Admit(c); err != nil {
		return err
	}
	if err := c.checkQuery(); err != nil || c.route.Body == BodyNone {
		return err
	}
	if coding := h.Peek(fasthttp.HeaderContentEncoding); len(coding) > 0 &&
		!strings.EqualFold(string(coding), "identity") {
		return Refuse(mediaType, "The body must not have a Content-Encoding: send it plain (a file in a form may be packed).")
	}
	if kind := h.ContentType(); c.route.Body == BodyJSON && string(kind) == "application/json" {
		// What nearly all clients send.
	} else if c.route.CSV && isCSV(string(kind)) {
		c.csv = true
	} else if err := checkType(c.route.Body, string(kind)); err != nil {
		return err
	}
	limit := c.bodyLimit()
	if int64(h.ContentLength()) > limit {
		return Refuse(TooLarge, "The body is over %d bytes: send less.", limit)
	}
	return nil
}

// bodyLimit returns how long the body may be, in bytes.
func (c *Call) bodyLimit() int64 {
	switch {
	case c.route == nil:
		return MaxJSON
	case c.route.Body.isStream():
		return c.server.cfg.MaxUpload
	}
	return cmp.Or(c.route.MaxBody, MaxJSON)
}

// isCSV reports whether a Content-Type is CSV in UTF-8 (RFC 7111, section 5.1).
func isCSV(header string) bool {
	kind, params, err := mime.ParseMediaType(header)
	charset := params["charset"]
	return err == nil && kind == "text/csv" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// checkType refuses a Content-Type that is not of a kind of body.
func checkType(want BodyKind, header string) error {
	kind, params, err := mime.ParseMediaType(header)
	if want == BodyPiece {
		if kind != "application/offset+octet-stream" {
			return Refuse(mediaType, "The body must be a piece of the upload: send Content-Type: application/offset+octet-stream.")
		}
		return nil
	}
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

// readJSON reads the request's JSON, which may have only the members of the route, or its CSV, which the handler reads.
func (c *Call) readJSON() error {
	if _, err := c.text.ReadFrom(&c.body); err != nil || c.csv {
		return err
	}
	d, err := c.json.parse(c.text.Bytes())
	if err != nil {
		return err
	}
	return d.check(c.route.Fields)
}

// maxEmptyBody bounds a body that may only be an empty object, in bytes.
const maxEmptyBody = 1 << 10

// refuseBody refuses the body of a request that takes none, except for the empty object that some clients send with
// every POST.
func (c *Call) refuseBody() error {
	b, err := io.ReadAll(io.LimitReader(&c.body, maxEmptyBody))
	if err != nil || len(b) == 0 {
		return err
	}
	d, err := ParseDocument(b)
	if err != nil {
		return Refuse(Unacceptable, "This request takes no body: send it without one.")
	}
	return d.check(&Fields{})
}
