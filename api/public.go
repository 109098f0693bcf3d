package api

import (
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/api/httpd"
	"probity/coordinator"
)

// verifyPublic serves the anonymous endpoint. Only a well-formed request counts against its client's address.
func verifyPublic(c *call) error {
	d := c.Document()
	email, err := d.RequiredText("email")
	if err != nil {
		return err
	}
	decision, err := c.srv.deps.Store.AllowPublic(c.ClientIP(), c.srv.cfg.PublicPerDay, c.srv.now())
	if err != nil {
		return err
	}
	c.setDecision(decision)
	if !decision.OK {
		return overLimit(decision, "verification")
	}
	q := verifyOptions{checkSMTP: true, timeout: defaultTimeout * time.Second}
	started := time.Now()
	ctx, release := c.srv.untilDeadline(q, started)
	defer release()
	a, err := c.srv.verify(httpd.Traced(ctx, c.Call), started, coordinator.Request{Email: email,
		MaxAge: coordinator.DefaultMaxAge, LowPriority: true})
	if err != nil {
		return err
	}
	return c.SendBytes(httpd.StatusOK, a.AppendJSON(make([]byte, 0, 512), c.srv.now()))
}

// admitOrigin admits pages of our own and of the configured origins, and sets the CORS headers for them.
func admitOrigin(c *call) error {
	h := &c.Ctx.Response.Header
	h.Set("Vary", "Origin")
	origin := string(c.Ctx.Request.Header.Peek(fasthttp.HeaderOrigin))
	if origin == "" {
		return nil
	}
	if !ownOrigin(c, origin) && !slices.Contains(c.srv.cfg.CORSOrigins, origin) {
		return httpd.Refuse(httpd.Forbidden, "Origin not allowed. The operator must add it with --cors-origin.")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-Request-Id")
	return nil
}

// ownOrigin reports whether an origin is our public URL or the host that the request was sent to.
func ownOrigin(c *call, origin string) bool {
	if own, err := originOf(c.srv.cfg.PublicURL); err == nil && own == origin {
		return true
	}
	_, host, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(host, string(c.Ctx.Request.Header.Host()))
}

// preflight answers a CORS preflight request. It does not count against a limit.
func preflight(c *call) error {
	h := &c.Ctx.Response.Header
	h.Set("Access-Control-Allow-Methods", "POST")
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	h.Set("Access-Control-Max-Age", "86400")
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}
