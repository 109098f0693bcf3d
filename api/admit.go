package api

import (
	"mime"
	"strings"

	"github.com/valyala/fasthttp"

	"probity/store"
)

// admit decides about a request by all that can be known without its body. A request to a limited path counts from here
// on, whatever its answer.
func (x *exchange) admit() error {
	err := checkFraming(&x.ctx.Request.Header)
	if err != nil {
		return err
	}
	method, path := x.ctx.Method(), x.ctx.Request.URI().PathOriginal()
	if x.route = x.srv.findFixed(method, path); x.route == nil {
		if x.route, x.param, err = x.srv.find(string(method), string(path)); err != nil {
			return err
		}
	}
	if x.srv.draining.Load() && !x.route.always {
		return busy("The server is shutting down")
	}
	if x.route.cross {
		if err := x.admitOrigin(); err != nil {
			return err
		}
	}
	if err := x.authorize(); err != nil {
		return err
	}
	if err := x.count(); err != nil {
		return err
	}
	return x.checkPayload()
}

// authorize finds out who asks.
func (x *exchange) authorize() error {
	if x.route.access == anyone {
		return nil
	}
	if x.route.access == keyOrSig && x.isSigned() {
		return x.checkSignature()
	}
	var err error
	if keys := x.ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization); x.route.access.bySession() || (len(keys) == 0 && x.sessionToken() != "") {
		err = x.enter()
	} else {
		err = x.unlock(keys)
	}
	if err != nil {
		return err
	}
	if err := x.refuseCustomer(); err != nil {
		return err
	}
	return x.holdKey()
}

// unlock lets the bearer of a key in.
func (x *exchange) unlock(headers [][]byte) error {
	secret, err := bearer(headers)
	if err != nil {
		return err
	}
	if x.who, err = x.srv.rooms.Store.Authenticate(secret, x.at); err != nil {
		return noKey()
	}
	return nil
}

// holdKey holds a key to its scopes and networks; a session has neither.
func (x *exchange) holdKey() error {
	if x.visit != nil {
		return nil
	}
	if !x.who.MayUse(x.route.scopes) {
		return refuse(forbidden, "This key may not do this: use one with the scope %s.", strings.Join(x.route.scopes.Names(), " or "))
	}
	if x.who.Networks != nil && !x.who.MayComeFrom(x.client()) {
		return refuse(forbidden, "This key may not be used from %s: use it from one of its networks, or make one for yours.", x.client())
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

// count holds the request to its limit.
func (x *exchange) count() error {
	var d store.Decision
	var err error
	switch x.route.counted {
	case asSingle:
		d = x.srv.rooms.Store.AllowSingle(x.who.User.ID, x.at)
	case asBulk:
		d, err = x.srv.rooms.Store.AllowBulk(x.who.User.ID, x.srv.now())
	default:
		return nil
	}
	if err != nil {
		return err
	}
	x.allowed, x.limit = d, &x.allowed
	if !d.OK {
		return overLimit(d)
	}
	return nil
}

// checkPayload refuses a body by its header.
func (x *exchange) checkPayload() error {
	h := &x.ctx.Request.Header
	if x.route.payload == noPayload {
		return nil
	}
	if coding := h.Peek(fasthttp.HeaderContentEncoding); len(coding) > 0 && !strings.EqualFold(string(coding), "identity") {
		return refuse(mediaType, "The body must not have a Content-Encoding: send it plain (a file in a form may be packed).")
	}
	if kind := h.ContentType(); x.route.payload == jsonPayload && string(kind) == "application/json" {
		// What nearly everybody sends.
	} else if err := x.checkType(string(kind)); err != nil {
		return err
	}
	limit := int64(maxJSON)
	if x.route.payload == formPayload {
		limit = x.srv.cfg.MaxUpload
	}
	if int64(h.ContentLength()) > limit {
		return refuse(tooLarge, "The body is over %d bytes: send less.", limit)
	}
	return nil
}

func (x *exchange) checkType(header string) error {
	kind, params, err := mime.ParseMediaType(header)
	if x.route.payload == formPayload {
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
	if c := params["charset"]; c != "" && !strings.EqualFold(c, "utf-8") {
		return refuse(mediaType, "The body must be UTF-8: send Content-Type: application/json without another charset.")
	}
	return nil
}

// document reads the request's JSON.
func (x *exchange) document() (*document, error) {
	b, err := x.body.all(x.short[:0])
	if err != nil {
		return nil, err
	}
	return x.members.parse(b)
}

// documentOf is a document that may have these members only.
func (x *exchange) documentOf(members ...string) (*document, error) {
	d, err := x.document()
	if err != nil {
		return nil, err
	}
	return d, d.only(members...)
}
