package api

import (
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/api/httpd"
	"probity/coordinator/results"
	"probity/store"
)

// call is one request of the API, with what a handler needs.
type call struct {
	*httpd.Call
	srv       *Server
	route     *route
	clockTime time.Time // when it started, by the clock of limits and ledgers
	identity  store.Identity
	session   *loginSession  // the session that let the request in; nil for a key
	decision  store.Decision // of the rate limit that this request counts in
	result    results.Single
}

// newCall makes the call of a request to a route, or uses that of an earlier request again.
func (s *Server) newCall(request *httpd.Call, r *route) *call {
	c, ok := request.App.(*call)
	if !ok {
		c = new(call)
		request.App = c
	}
	c.Call, c.srv, c.route, c.clockTime = request, s, r, s.clock(request.Started)
	return c
}

// Reset makes the call ready for another request.
func (c *call) Reset() { *c = call{} }

// admit decides about a request by all that is known without its body. A request to a limited path counts from here
// on, whatever its answer.
func (c *call) admit() error {
	if c.route.crossOrigin {
		if err := admitOrigin(c); err != nil {
			return err
		}
	}
	err := c.authorize()
	c.Account = c.identity.User.ID
	if err != nil {
		return err
	}
	return c.applyRateLimit()
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
	if keys := c.Ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization); c.route.access.bySession() || (len(keys) == 0 && sessionToken(c) != "") {
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
		return httpd.Refuse(httpd.Forbidden, "This key may not do this: use one with the scope %s.", strings.Join(c.route.scopes.Names(), " or "))
	}
	if c.identity.Networks != nil && !c.identity.MayComeFrom(c.ClientIP()) {
		return httpd.Refuse(httpd.Forbidden, "This key may not be used from %s: use it from one of its networks, or make one for yours.", c.ClientIP())
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
	c.setDecision(d)
	if !d.OK {
		return overLimit(d)
	}
	return nil
}

// setDecision keeps the decision of a rate limit, and tells the client.
func (c *call) setDecision(d store.Decision) {
	c.decision = d
	c.SetRateLimit(d.Limit, d.Remaining, d.Reset)
}
