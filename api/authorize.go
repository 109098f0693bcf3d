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
	session   *loginSession    // the session that let the request in; nil for a key
	decision  store.Decision   // of the rate limit that this request counts in
	counted   store.Decision   // the same, when the upload that it brings is counted
	verdicts  []results.Single // of the answer
	// localActor is who acts through a Local; empty for a request to a Server.
	localActor string
}

// Reset makes the call ready for another request.
func (c *call) Reset() {
	clear(c.verdicts)
	*c = call{verdicts: c.verdicts[:0]}
}

// admit decides about a request to a route by all that is known without its body. Single verifications and batches
// count from here on, whatever their answer; an upload is checked here and counts in the commit that accepts its job. A
// request whose Idempotency-Key was answered is let in beyond the limit, as its first answer is sent again. The call of
// an earlier request is used again.
func (s *Server) admit(request *httpd.Call, r *route) error {
	c, ok := request.App.(*call)
	if !ok {
		c = new(call)
		request.App = c
	}
	c.Call = request
	c.srv = s
	c.route = r
	c.clockTime = s.clock(request.Started)
	if r.crossOrigin {
		if err := admitOrigin(c); err != nil {
			return err
		}
	}
	err := c.authorize()
	c.Account = c.identity.User.ID
	if err != nil {
		return err
	}
	var d store.Decision
	switch r.rateLimit {
	case singleLimit:
		d = s.deps.Store.AllowSingle(c.identity.User.ID, c.clockTime)
	case batchLimit:
		d = s.deps.Store.AllowBatch(c.identity.User.ID, c.clockTime)
	case domainLimit:
		d = s.deps.Store.AllowDomain(c.identity.User.ID, c.clockTime)
	case bulkLimit: // counted when its job is accepted
		if d, err = s.deps.Store.UploadsLeft(c.identity.User.ID, s.now()); err != nil {
			return err
		}
	default:
		return nil
	}
	c.setDecision(d)
	if d.OK {
		return nil
	}
	if key := c.idempotencyKey(); key != "" {
		repeated, err := s.deps.Store.Answered(store.Request{Account: c.identity.User.ID, Endpoint: r.Path, Key: key},
			s.now())
		if err != nil || repeated {
			return err
		}
	}
	return overLimit(d, counted[r.rateLimit])
}

// idempotencyKey returns the header of that name, "" if it was not sent.
func (c *call) idempotencyKey() string { return string(c.Ctx.Request.Header.Peek("Idempotency-Key")) }

// authorize identifies the client, and enforces the scopes and networks of its key; a session has neither.
func (c *call) authorize() error {
	access := c.route.access
	if access == anyone {
		return nil
	}
	if access == keyOrSignature && isSigned(c) {
		return checkSignature(c)
	}
	keys := c.Ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	keyInstead := access == adminSession && len(keys) > 0 && sessionToken(c) == ""
	if !keyInstead && (access == sessionOnly || access == adminSession || (len(keys) == 0 && sessionToken(c) != "")) {
		if err := authorizeSession(c); err != nil {
			return err
		}
	} else {
		secret, err := bearer(keys)
		if err != nil {
			return err
		}
		if c.identity, err = c.srv.deps.Store.Authenticate(secret, c.clockTime); err != nil {
			return noKey()
		}
	}
	if keyInstead {
		return c.requireSession("do this")
	}
	if forAdmins := access == adminKey || access == adminSession; forAdmins &&
		(c.identity.User.Role != store.Admin || c.identity.Test) {
		if c.session != nil {
			return httpd.Refuse(httpd.Forbidden, "Only an admin may do this: ask the operator of the service.")
		}
		return httpd.Refuse(httpd.Forbidden, "This key may not do this: use a live key of an account with the role admin.")
	}
	switch {
	case c.session != nil:
		return nil
	case !c.identity.MayUse(c.route.scopes):
		return httpd.Refuse(httpd.Forbidden, "This key may not do this: use one with the scope %s.",
			strings.Join(c.route.scopes.Names(), " or "))
	case c.identity.Networks != nil && !c.identity.MayComeFrom(c.ClientIP()):
		return httpd.Refuse(httpd.Forbidden, "This key may not be used from %s: use it from one of its networks, or make one for yours.", c.ClientIP())
	}
	return nil
}

// requireSession refuses a key: what would outlive the key or reach further than it needs a person who is signed in,
// or the command line on the data folder.
func (c *call) requireSession(what string) error {
	if c.session != nil || c.localActor != "" {
		return nil
	}
	return httpd.Refuse(httpd.Forbidden,
		"A key may not %s: sign in to the dashboard as an admin, or use the command line on the data folder of the stopped server.", what)
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

// setDecision keeps the decision of a rate limit, and tells the client.
func (c *call) setDecision(d store.Decision) {
	c.decision = d
	c.SetRateLimit(d.Limit, d.Remaining, d.Reset)
}
