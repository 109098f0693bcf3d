package api

import (
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"probity/store"
)

// admit decides about a request by all that is known without its body. A request to a limited path counts from here
// on, whatever its answer.
func (c *call) admit() error {
	err := checkFraming(&c.ctx.Request.Header)
	if err != nil {
		return err
	}
	method, path := c.ctx.Method(), c.ctx.Request.URI().PathOriginal()
	if c.route = c.srv.findStatic(method, path); c.route == nil {
		if c.route, c.param, err = c.srv.findRoute(string(method), string(path)); err != nil {
			return err
		}
	}
	if c.srv.draining.Load() && !c.route.whileDraining {
		return busy("The server is shutting down")
	}
	if c.route.crossOrigin {
		if err := admitOrigin(c); err != nil {
			return err
		}
	}
	if err := c.authorize(); err != nil {
		return err
	}
	if err := c.applyRateLimit(); err != nil {
		return err
	}
	return c.checkPayload()
}

// authorize identifies the client.
func (c *call) authorize() error {
	if c.route.access == anyone {
		return nil
	}
	if c.route.access == keyOrSignature && isSigned(c) {
		return checkSignature(c)
	}
	var err error
	if keys := c.ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization); c.route.access.bySession() || (len(keys) == 0 && sessionToken(c) != "") {
		err = authorizeSession(c)
	} else {
		err = c.authorizeKey(keys)
	}
	if err != nil {
		return err
	}
	if err := requireAdmin(c); err != nil {
		return err
	}
	return c.checkKeyRestrictions()
}

// authorizeKey authorizes a request by its API key.
func (c *call) authorizeKey(headers [][]byte) error {
	secret, err := bearer(headers)
	if err != nil {
		return err
	}
	if c.identity, err = c.srv.deps.Store.Authenticate(secret, c.clockTime); err != nil {
		return noKey()
	}
	return nil
}

// checkKeyRestrictions enforces the scopes and networks of a key; a session has neither.
func (c *call) checkKeyRestrictions() error {
	if c.session != nil {
		return nil
	}
	if !c.identity.MayUse(c.route.scopes) {
		return refuse(forbidden, "This key may not do this: use one with the scope %s.", strings.Join(c.route.scopes.Names(), " or "))
	}
	if c.identity.Networks != nil && !c.identity.MayComeFrom(c.clientIP()) {
		return refuse(forbidden, "This key may not be used from %s: use it from one of its networks, or make one for yours.", c.clientIP())
	}
	return nil
}

// bearer is the token of the header (RFC 6750, section 2.1; the scheme's case does not matter, RFC 9110, section 11.1).
func bearer(headers [][]byte) (string, error) {
	if len(headers) != 1 {
		return "", noKey()
	}
	scheme, token, _ := strings.Cut(string(headers[0]), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", noKey()
	}
	return token, nil
}

// applyRateLimit counts the request and refuses it over its limit.
func (c *call) applyRateLimit() error {
	var d store.Decision
	var err error
	switch c.route.rateLimit {
	case singleLimit:
		d = c.srv.deps.Store.AllowSingle(c.identity.User.ID, c.clockTime)
	case bulkLimit:
		d, err = c.srv.deps.Store.AllowBulk(c.identity.User.ID, c.srv.now())
	default:
		return nil
	}
	if err != nil {
		return err
	}
	c.decision, c.limit = d, &c.decision
	if !d.OK {
		return overLimit(d)
	}
	return nil
}

// checkPayload refuses a body by its header.
func (c *call) checkPayload() error {
	h := &c.ctx.Request.Header
	if c.route.payload == noPayload {
		return nil
	}
	if coding := h.Peek(fasthttp.HeaderContentEncoding); len(coding) > 0 && !strings.EqualFold(string(coding), "identity") {
		return refuse(mediaType, "The body must not have a Content-Encoding: send it plain (a file in a form may be packed).")
	}
	if kind := h.ContentType(); c.route.payload == jsonPayload && string(kind) == "application/json" {
		// What nearly all clients send.
	} else if err := c.checkType(string(kind)); err != nil {
		return err
	}
	limit := int64(maxJSON)
	if c.route.payload == formPayload {
		limit = c.srv.cfg.MaxUpload
	}
	if int64(h.ContentLength()) > limit {
		return refuse(tooLarge, "The body is over %d bytes: send less.", limit)
	}
	return nil
}

func (c *call) checkType(header string) error {
	kind, params, err := mime.ParseMediaType(header)
	if c.route.payload == formPayload {
		if kind != "multipart/form-data" {
			return refuse(mediaType, "The body must be multipart/form-data with a part named file: with curl, use -F file=@list.csv.")
		}
		if err != nil || params["boundary"] == "" {
			return refuse(malformed, "The Content-Type has no boundary: let your HTTP client set it.")
		}
		return nil
	}
	if kind != "application/json" || err != nil {
		return refuse(mediaType, "The body must be JSON: send Content-Type: application/json.")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(mediaType, "The body must be UTF-8: send Content-Type: application/json without another charset.")
	}
	return nil
}

// document reads the request's JSON.
func (c *call) document() (*document, error) {
	b, err := c.body.readAll(c.smallBody[:0])
	if err != nil {
		return nil, err
	}
	return c.jsonBody.parse(b)
}

// strictDocument is a document that may have only these members.
func (c *call) strictDocument(members ...string) (*document, error) {
	d, err := c.document()
	if err != nil {
		return nil, err
	}
	return d, d.allowOnly(members...)
}
