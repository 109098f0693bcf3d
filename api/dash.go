package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"probity/api/httpd"
	"probity/store"
)

// The dashboard is the same API with a session in place of a key. What its pages need in addition is under
// /v1/dash, for sessions only.
//
//  1. A session is proved by a cookie that scripts cannot read and other sites' pages cannot make a browser send.
//  2. A request that changes something must have the session's CSRF token in a header: only a page that can read our
//     answers has it.
//  3. Each request checks the session: one that has ended is refused from the next request on, and its event streams
//     end.
//  4. A key is never accepted where a session is needed: the holder of a key cannot make others, or change the
//     password.
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

var errNoSession = httpd.Refuse(httpd.Unauthorized, "Your session expired. Sign in again.")

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
func sessionToken(c *call) string {
	return string(c.Ctx.Request.Header.Cookie(c.srv.cookieName()))
}

// authorizeSession authorizes a request by its session. A request that changes something must come from one of our
// pages.
func authorizeSession(c *call) error {
	token := sessionToken(c)
	session, user, err := c.srv.deps.Store.Session(token, c.srv.now())
	if errors.Is(err, store.ErrNoSession) {
		return errNoSession
	}
	if err != nil {
		return err
	}
	c.identity, c.session = store.Identity{User: user}, &loginSession{token, session}
	if isSafe(string(c.Ctx.Method())) {
		return nil
	}
	if err := requireSameOrigin(c); err != nil {
		return err
	}
	if !store.CheckCSRF(token, string(c.Ctx.Request.Header.Peek(csrfHeader))) {
		return httpd.Refuse(httpd.Forbidden, "Your session changed. Reload the page.")
	}
	return nil
}

// isSafe reports methods that change nothing (RFC 9110, section 9.2.1).
func isSafe(method string) bool { return method == "GET" || method == "HEAD" }

// requireSameOrigin refuses a request that a browser marks as from a page of another origin. Other clients do not send
// the mark, and no page can make them act.
func requireSameOrigin(c *call) error {
	if site := string(c.Ctx.Request.Header.Peek("Sec-Fetch-Site")); site != "" && site != "same-origin" {
		return httpd.Refuse(httpd.Forbidden, "Only the dashboard's own pages may do this: open the dashboard and sign in there.")
	}
	return nil
}

// setCookie sets the session's cookie, or deletes it if the token is empty.
func setCookie(c *call, token string) {
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
	c.Ctx.Response.Header.SetCookie(&cookie)
}

// dashRoutes are the dashboard's part of the API.
func (s *Server) dashRoutes() []*route {
	return []*route{
		s.newRoute("POST /v1/dash/login", logIn, anyone),
		s.newRoute("POST /v1/dash/reset", resetPassword, anyone),
		s.newRoute("POST /v1/dash/logout", logOut, sessionOnly),
		s.newRoute("GET /v1/dash/session", getSession, sessionOnly),
		s.newRoute("GET /v1/dash/sessions", listSessions, sessionOnly),
		s.newRoute("DELETE /v1/dash/sessions", endOtherSessions, sessionOnly),
		s.newRoute("DELETE /v1/dash/sessions/{session_id}", endSession, sessionOnly),
		s.newRoute("PUT /v1/dash/password", changePassword, sessionOnly),
		s.newRoute("GET /v1/dash/totp", getTOTP, sessionOnly),
		s.newRoute("POST /v1/dash/totp", newTOTP, sessionOnly),
		s.newRoute("POST /v1/dash/totp/on", switchTOTPOn, sessionOnly),
		s.newRoute("POST /v1/dash/totp/off", switchTOTPOff, sessionOnly),
		s.newRoute("GET /v1/dash/keys", listOwnKeys, sessionOnly),
		s.newRoute("POST /v1/dash/keys", createOwnKey, sessionOnly),
		s.newRoute("DELETE /v1/dash/keys/{key_id}", revokeOwnKey, sessionOnly),
		s.newRoute("POST /v1/dash/callbacks/test", testCallback, sessionOnly, bulkLimit),
		s.newRoute("GET /v1/dash/ledger", getOwnLedger, sessionOnly),
		s.newRoute("GET /v1/dash/ledger.csv", getLedgerFile, sessionOnly),
		s.newRoute("GET /v1/dash/usage.csv", getUsageFile, sessionOnly),
		s.newRoute("GET /v1/dash/events", getEvents, sessionOnly),
		s.newRoute("GET /v1/dash/jobs/{job_id}/rows", findRows, sessionOnly),
		s.newRoute("GET /v1/dash/jobs/{job_id}/providers", countProviders, sessionOnly),
		s.newRoute("GET /v1/dash/admin/jobs", listAllJobs, adminSession),
		s.newRoute("GET /v1/dash/admin/jobs/{job_id}", getAnyJob, adminSession),
		s.newRoute("GET /v1/dash/admin/activity", getActivity, adminSession),
		s.newRoute("GET /v1/dash/admin/node", getNode, adminSession),
		s.newRoute("GET /v1/dash/admin/providers", listProviders, adminSession),
		s.newRoute("GET /v1/dash/admin/probes", listProbes, adminSession),
		s.newRoute("POST /v1/dash/admin/traces", listTraces, adminSession),
		s.newRoute("GET /v1/dash/admin/ready-queues", listQueues, adminSession),
		s.newRoute("POST /v1/dash/admin/quarantines/end", endQuarantine, adminSession),
		// The dashboard itself. Every page is the same file, which routes by the path.
		s.newRoute("GET /", getApp, anyone),
		s.newRoute("GET /app", getApp, anyone, pageQuery),
		s.newRoute("GET /app/", getApp, anyone, pageQuery),
		s.newRoute("GET /app/{page}", getApp, anyone, pageQuery),
		s.newRoute("GET /app/{page}/{item}", getApp, anyone, pageQuery),
		s.newRoute("GET /app/{page}/{item}/{part}", getApp, anyone, pageQuery),
		s.newRoute("GET /assets/{file}", getAsset, anyone),
	}
}

// accountName is the e-mail address of an account, or its id if it no longer exists.
func (s *Server) accountName(id string) string {
	if u, err := s.deps.Store.User(id); err == nil {
		return u.Email
	}
	return fmt.Sprintf("account %s", id)
}
