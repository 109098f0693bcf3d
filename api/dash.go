package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/store"
)

// The dashboard is the same interface with a session in place of a key. What its pages need in addition is under
// /v1/dash, for sessions only.
//
//  1. A session is proved by a cookie that scripts cannot read and other sites' pages cannot make a browser send.
//  2. Whatever changes something must bear the session's token in a header: only a page that could read an answer of
//     ours knows it.
//  3. A session counts from request to request: one that was ended is refused by the next, open event streams included.
//  4. A key is never accepted where a session is needed: the holder of a key cannot make others, or change the password.
const (
	sessionTime  = 7 * 24 * time.Hour
	plainCookie  = "probity"
	secureCookie = "__Host-probity" // bound to this host and to TLS by its name (RFC 6265bis, section 4.1.3.2)
	csrfHeader   = "X-CSRF-Token"
)

// visit is the session of a request.
type visit struct {
	token string
	store.Session
}

var errNoVisit = refuse(unauthorized, "You are not signed in, or the session has ended: sign in again.")

// cookieName is that of the session's cookie. Where the service is reached with TLS, the cookie never travels without.
func (s *Server) cookieName() string {
	if s.overTLS() {
		return secureCookie
	}
	return plainCookie
}

func (s *Server) overTLS() bool {
	return s.cfg.TLS != nil || strings.HasPrefix(s.cfg.PublicURL, "https://")
}

// sessionToken is what the session's cookie holds, empty where there is none.
func (x *exchange) sessionToken() string {
	return string(x.ctx.Request.Header.Cookie(x.srv.cookieName()))
}

// enter lets a session in, if the page that asks is one of ours.
func (x *exchange) enter() error {
	token := x.sessionToken()
	session, user, err := x.srv.rooms.Store.Session(token, x.srv.now())
	if errors.Is(err, store.ErrNoSession) {
		return errNoVisit
	}
	if err != nil {
		return err
	}
	x.who, x.visit = store.Identity{User: user}, &visit{token, session}
	if isSafe(string(x.ctx.Method())) {
		return nil
	}
	if err := x.refuseForeignPage(); err != nil {
		return err
	}
	if !store.CheckCSRF(token, string(x.ctx.Request.Header.Peek(csrfHeader))) {
		return refuse(forbidden, "This page is out of step with its session: reload it and try again.")
	}
	return nil
}

// isSafe tells methods that change nothing (RFC 9110, section 9.2.1).
func isSafe(method string) bool { return method == "GET" || method == "HEAD" }

// refuseForeignPage refuses what a browser says comes from a page of another origin. Clients that are no browsers say
// nothing, and cannot be made to act by a page.
func (x *exchange) refuseForeignPage() error {
	if site := string(x.ctx.Request.Header.Peek("Sec-Fetch-Site")); site != "" && site != "same-origin" {
		return refuse(forbidden, "Only the dashboard's own pages may do this: open the dashboard and sign in there.")
	}
	return nil
}

// setCookie gives the browser a session, or takes it back when the token is empty.
func (x *exchange) setCookie(token string) {
	var c fasthttp.Cookie
	c.SetKey(x.srv.cookieName())
	c.SetValue(token)
	c.SetPath("/")
	c.SetHTTPOnly(true)
	c.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	c.SetSecure(x.srv.overTLS())
	if token == "" {
		c.SetExpire(fasthttp.CookieExpireDelete)
	} else {
		c.SetMaxAge(int(sessionTime.Seconds()))
	}
	x.ctx.Response.Header.SetCookie(&c)
}

// dashRoutes are the dashboard's own part of the interface.
func (s *Server) dashRoutes() []*route {
	return append([]*route{
		s.on("POST /v1/dash/login", (*exchange).logIn, anyone, jsonPayload),
		s.on("POST /v1/dash/reset", (*exchange).resetPassword, anyone, jsonPayload),
		s.on("POST /v1/dash/logout", (*exchange).logOut, sessionOnly),
		s.on("GET /v1/dash/session", (*exchange).getVisit, sessionOnly),
		s.on("GET /v1/dash/sessions", (*exchange).listSessions, sessionOnly),
		s.on("DELETE /v1/dash/sessions", (*exchange).endOtherSessions, sessionOnly),
		s.on("DELETE /v1/dash/sessions/{session_id}", (*exchange).endSession, sessionOnly),
		s.on("PUT /v1/dash/password", (*exchange).changePassword, sessionOnly, jsonPayload),
		s.on("GET /v1/dash/totp", (*exchange).getTOTP, sessionOnly),
		s.on("POST /v1/dash/totp", (*exchange).newTOTP, sessionOnly, jsonPayload),
		s.on("POST /v1/dash/totp/on", (*exchange).switchTOTPOn, sessionOnly, jsonPayload),
		s.on("POST /v1/dash/totp/off", (*exchange).switchTOTPOff, sessionOnly, jsonPayload),
		s.on("GET /v1/dash/keys", (*exchange).listOwnKeys, sessionOnly),
		s.on("POST /v1/dash/keys", (*exchange).createOwnKey, sessionOnly, jsonPayload),
		s.on("DELETE /v1/dash/keys/{key_id}", (*exchange).revokeOwnKey, sessionOnly),
		s.on("GET /v1/dash/callbacks", (*exchange).getSigning, sessionOnly),
		s.on("POST /v1/dash/callbacks/secret", (*exchange).newSigningSecret, sessionOnly),
		s.on("DELETE /v1/dash/callbacks/secret", (*exchange).dropSigningSecret, sessionOnly),
		s.on("POST /v1/dash/callbacks/test", (*exchange).testCallback, sessionOnly, asBulk, jsonPayload),
		s.on("GET /v1/dash/ledger", (*exchange).getOwnLedger, sessionOnly),
		s.on("GET /v1/dash/ledger.csv", (*exchange).getLedgerFile, sessionOnly),
		s.on("GET /v1/dash/usage", (*exchange).getUsage, sessionOnly),
		s.on("GET /v1/dash/usage.csv", (*exchange).getUsageFile, sessionOnly),
		s.on("GET /v1/dash/events", (*exchange).getEvents, sessionOnly),
		s.on("GET /v1/dash/jobs/{job_id}/rows", (*exchange).findRows, sessionOnly),
		s.on("GET /v1/dash/jobs/{job_id}/providers", (*exchange).countProviders, sessionOnly),
		s.on("GET /v1/dash/admin/jobs", (*exchange).listAllJobs, adminSession),
		s.on("GET /v1/dash/admin/node", (*exchange).getNode, adminSession),
		s.on("GET /v1/dash/admin/providers", (*exchange).listProviders, adminSession),
		s.on("GET /v1/dash/admin/probes", (*exchange).listProbes, adminSession),
		s.on("POST /v1/dash/admin/traces", (*exchange).listTraces, adminSession, jsonPayload),
		s.on("GET /v1/dash/admin/lanes", (*exchange).listLanes, adminSession),
		s.on("POST /v1/dash/admin/lanes/release", (*exchange).releaseLane, adminSession, jsonPayload),
	}, s.pageRoutes()...)
}

// bySession reports that nothing but a session opens a route.
func (a access) bySession() bool { return a == sessionOnly || a == adminSession }

// forAdmins reports that a route is an admin's.
func (a access) forAdmins() bool { return a == adminKey || a == adminSession }

// refuseCustomer holds admin routes to admins.
func (x *exchange) refuseCustomer() error {
	if !x.route.access.forAdmins() || (x.who.User.Role == store.Admin && !x.who.Test) {
		return nil
	}
	if x.visit != nil {
		return refuse(forbidden, "Only an admin may do this: ask the operator of the service.")
	}
	return refuse(forbidden, "This key may not do this: use a live key of an account with the role admin.")
}

// accountOf names an account by its e-mail address, or by its id once it is gone.
func (s *Server) accountOf(id string) string {
	if u, err := s.rooms.Store.User(id); err == nil {
		return u.Email
	}
	return fmt.Sprintf("account %s", id)
}
