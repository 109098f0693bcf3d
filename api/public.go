package api

import (
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/coordinator"
	"probity/store"
)

// verifyPublic serves the anonymous endpoint. Only a request that could be read counts against its client's address.
func (x *exchange) verifyPublic() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	email, err := d.needText("email")
	if err != nil {
		return err
	}
	limits := store.DefaultPublicLimits()
	limits.GlobalPerDay = x.srv.cfg.PublicPerDay
	decision, err := x.srv.rooms.Store.AllowPublic(x.client(), limits, x.srv.now())
	if err != nil {
		return err
	}
	x.limit = &decision
	if !decision.OK {
		return overLimit(decision)
	}
	q := singleRequest{email: email, checkSMTP: true, timeout: defaultTimeout * time.Second, maxAge: coordinator.DefaultMaxAge}
	a, err := x.verify(q, time.Now(), coordinator.Request{Email: email, MaxAge: q.maxAge, Low: true})
	if err != nil {
		return err
	}
	return x.send(statusOK, a.AppendJSON(make([]byte, 0, 512), x.srv.now()))
}

// admitOrigin lets pages of our own and of the configured origins in, and tells their browsers so.
func (x *exchange) admitOrigin() error {
	h := &x.ctx.Response.Header
	h.Set("Vary", "Origin")
	origin := string(x.ctx.Request.Header.Peek(fasthttp.HeaderOrigin))
	if origin == "" {
		return nil
	}
	if !x.ownOrigin(origin) && !slices.Contains(x.srv.cfg.CORSOrigins, origin) {
		return refuse(forbidden, "This page's origin may not use the public endpoint: the operator of the service allows it with --cors-origin.")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, X-Request-Id")
	return nil
}

// ownOrigin reports that a page is of the host that the request was sent to.
func (x *exchange) ownOrigin(origin string) bool {
	if own, err := originOf(x.srv.cfg.PublicURL); err == nil && own == origin {
		return true
	}
	_, host, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(host, string(x.ctx.Request.Header.Host()))
}

// preflight answers a browser that asks before it sends. It never counts.
func (x *exchange) preflight() error {
	h := &x.ctx.Response.Header
	h.Set("Access-Control-Allow-Methods", "POST")
	h.Set("Access-Control-Allow-Headers", "Content-Type")
	h.Set("Access-Control-Max-Age", "86400")
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}
