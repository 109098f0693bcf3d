package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/store"
)

// The dashboard is the same API with a session in place of a key. What its pages need in addition is under
// /v1/dash, for sessions only.
//
//  1. A session is proved by a cookie that scripts cannot read and other sites' pages cannot make a browser send.
//  2. A request that changes something must have the session's CSRF token in a header: only a page that can read our answers
//     has it.
//  3. Each request checks the session: one that has ended is refused from the next request on, and its event streams end.
//  4. A key is never accepted where a session is needed: the holder of a key cannot make others, or change the password.
const (
	sessionTime  = 7 * 24 * time.Hour
	plainCookie  = "probity"
	secureCookie = "__Host-probity" // bound to this host and to TLS by its name (RFC 6265bis, section 4.1.3.2)
	csrfHeader   = "X-CSRF-Token"
)

// loginSession is the session of a request.
type loginSession struct {
	token string
	store.Session
}

var errNoSession = refuse(unauthorized, "Your session expired. Sign in again.")

// cookieName is the name of the session's cookie. If the service is reached over TLS, the cookie is sent only over TLS.
func (s *Server) cookieName() string {
	if s.overTLS() {
		return secureCookie
	}
	return plainCookie
}

func (s *Server) overTLS() bool {
	return s.cfg.TLS != nil || strings.HasPrefix(s.cfg.PublicURL, "https://")
}

// sessionToken is the value of the session's cookie, empty if there is none.
func (c *call) sessionToken() string {
	return string(c.ctx.Request.Header.Cookie(c.srv.cookieName()))
}

// authorizeSession authorizes a request by its session. A request that changes something must come from one of our pages.
func (c *call) authorizeSession() error {
	token := c.sessionToken()
	session, user, err := c.srv.deps.Store.Session(token, c.srv.now())
	if errors.Is(err, store.ErrNoSession) {
		return errNoSession
	}
	if err != nil {
		return err
	}
	c.identity, c.session = store.Identity{User: user}, &loginSession{token, session}
	if isSafe(string(c.ctx.Method())) {
		return nil
	}
	if err := c.requireSameOrigin(); err != nil {
		return err
	}
	if !store.CheckCSRF(token, string(c.ctx.Request.Header.Peek(csrfHeader))) {
		return refuse(forbidden, "Your session changed. Reload the page.")
	}
	return nil
}

// isSafe reports methods that change nothing (RFC 9110, section 9.2.1).
func isSafe(method string) bool { return method == "GET" || method == "HEAD" }

// requireSameOrigin refuses a request that a browser marks as from a page of another origin. Other clients do not send
// the mark, and no page can make them act.
func (c *call) requireSameOrigin() error {
	if site := string(c.ctx.Request.Header.Peek("Sec-Fetch-Site")); site != "" && site != "same-origin" {
		return refuse(forbidden, "Only the dashboard's own pages may do this: open the dashboard and sign in there.")
	}
	return nil
}

// setCookie sets the session's cookie, or deletes it if the token is empty.
func (c *call) setCookie(token string) {
	var cookie fasthttp.Cookie
	cookie.SetKey(c.srv.cookieName())
	cookie.SetValue(token)
	cookie.SetPath("/")
	cookie.SetHTTPOnly(true)
	cookie.SetSameSite(fasthttp.CookieSameSiteStrictMode)
	cookie.SetSecure(c.srv.overTLS())
	if token == "" {
		cookie.SetExpire(fasthttp.CookieExpireDelete)
	} else {
		cookie.SetMaxAge(int(sessionTime.Seconds()))
	}
	c.ctx.Response.Header.SetCookie(&cookie)
}

// dashRoutes are the dashboard's part of the API.
func (s *Server) dashRoutes() []*route {
	return append([]*route{
		s.newRoute("POST /v1/dash/login", (*call).logIn, anyone, jsonPayload),
		s.newRoute("POST /v1/dash/reset", (*call).resetPassword, anyone, jsonPayload),
		s.newRoute("POST /v1/dash/logout", (*call).logOut, sessionOnly),
		s.newRoute("GET /v1/dash/session", (*call).getSession, sessionOnly),
		s.newRoute("GET /v1/dash/sessions", (*call).listSessions, sessionOnly),
		s.newRoute("DELETE /v1/dash/sessions", (*call).endOtherSessions, sessionOnly),
		s.newRoute("DELETE /v1/dash/sessions/{session_id}", (*call).endSession, sessionOnly),
		s.newRoute("PUT /v1/dash/password", (*call).changePassword, sessionOnly, jsonPayload),
		s.newRoute("GET /v1/dash/totp", (*call).getTOTP, sessionOnly),
		s.newRoute("POST /v1/dash/totp", (*call).newTOTP, sessionOnly, jsonPayload),
		s.newRoute("POST /v1/dash/totp/on", (*call).switchTOTPOn, sessionOnly, jsonPayload),
		s.newRoute("POST /v1/dash/totp/off", (*call).switchTOTPOff, sessionOnly, jsonPayload),
		s.newRoute("GET /v1/dash/keys", (*call).listOwnKeys, sessionOnly),
		s.newRoute("POST /v1/dash/keys", (*call).createOwnKey, sessionOnly, jsonPayload),
		s.newRoute("DELETE /v1/dash/keys/{key_id}", (*call).revokeOwnKey, sessionOnly),
		s.newRoute("GET /v1/dash/callbacks", (*call).getSigning, sessionOnly),
		s.newRoute("POST /v1/dash/callbacks/secret", (*call).newSigningSecret, sessionOnly),
		s.newRoute("DELETE /v1/dash/callbacks/secret", (*call).dropSigningSecret, sessionOnly),
		s.newRoute("POST /v1/dash/callbacks/test", (*call).testCallback, sessionOnly, bulkLimit, jsonPayload),
		s.newRoute("GET /v1/dash/ledger", (*call).getOwnLedger, sessionOnly),
		s.newRoute("GET /v1/dash/ledger.csv", (*call).getLedgerFile, sessionOnly),
		s.newRoute("GET /v1/dash/usage", (*call).getUsage, sessionOnly),
		s.newRoute("GET /v1/dash/usage.csv", (*call).getUsageFile, sessionOnly),
		s.newRoute("GET /v1/dash/events", (*call).getEvents, sessionOnly),
		s.newRoute("GET /v1/dash/jobs/{job_id}/rows", (*call).findRows, sessionOnly),
		s.newRoute("GET /v1/dash/jobs/{job_id}/providers", (*call).countProviders, sessionOnly),
		s.newRoute("GET /v1/dash/admin/jobs", (*call).listAllJobs, adminSession),
		s.newRoute("GET /v1/dash/admin/node", (*call).getNode, adminSession),
		s.newRoute("GET /v1/dash/admin/providers", (*call).listProviders, adminSession),
		s.newRoute("GET /v1/dash/admin/probes", (*call).listProbes, adminSession),
		s.newRoute("POST /v1/dash/admin/traces", (*call).listTraces, adminSession, jsonPayload),
		s.newRoute("GET /v1/dash/admin/lanes", (*call).listQueues, adminSession),
		s.newRoute("POST /v1/dash/admin/lanes/release", (*call).endQuarantine, adminSession, jsonPayload),
	}, s.pageRoutes()...)
}

// bySession reports that a route accepts only sessions.
func (a access) bySession() bool { return a == sessionOnly || a == adminSession }

// forAdmins reports that a route is for admins only.
func (a access) forAdmins() bool { return a == adminKey || a == adminSession }

// requireAdmin refuses admin routes to others.
func (c *call) requireAdmin() error {
	if !c.route.access.forAdmins() || (c.identity.User.Role == store.Admin && !c.identity.Test) {
		return nil
	}
	if c.session != nil {
		return refuse(forbidden, "Only an admin may do this: ask the operator of the service.")
	}
	return refuse(forbidden, "This key may not do this: use a live key of an account with the role admin.")
}

// accountName is the e-mail address of an account, or its id if it no longer exists.
func (s *Server) accountName(id string) string {
	if u, err := s.deps.Store.User(id); err == nil {
		return u.Email
	}
	return fmt.Sprintf("account %s", id)
}
