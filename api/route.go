package api

import (
	"net/url"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"probity/store"
)

// access is who may use a route.
type access uint8

const (
	anyone         access = iota
	keyOrSession          // a key of any account, or a session
	adminKey              // a live key with the scope admin of an account with the role admin, or a session of one
	keyOrSignature        // a key, or the signature of a link
	sessionOnly           // a session of the dashboard, never a key
	adminSession          // a session of an account with the role admin
)

// rateLimit is the limit that a route counts against. The handler of public requests counts them after it has read them.
type rateLimit uint8

const (
	noRateLimit rateLimit = iota
	singleLimit
	bulkLimit
)

// payload is the kind of body that a route accepts.
type payload uint8

const (
	noPayload payload = iota
	jsonPayload
	formPayload
)

// route is one method of one path.
type route struct {
	method        string
	path          []string // segments; "{...}" is a parameter
	name          string   // as in openapi.yaml, the label of logs and metrics
	access        access
	rateLimit     rateLimit
	payload       payload
	scopes        store.Scopes // a key needs one of them; without any, no key may use the route
	whileDraining bool         // served while the server drains
	crossOrigin   bool         // pages of other origins may use it
	handler       func(*call) error

	okRequests prometheus.Counter // of answers with 200
	duration   prometheus.Observer
}

// routes are all routes of the API.
func (s *Server) routes() []*route {
	list := []*route{
		s.newRoute("POST /v1/verify/single", verifySingle, keyOrSession, store.ScopeVerify, singleLimit, jsonPayload),
		s.newRoute("POST /v1/verify/bulk", createJob, keyOrSession, store.ScopeJobs, bulkLimit, formPayload),
		s.newRoute("GET /v1/verify/bulk", listJobs, keyOrSession, store.ScopeJobs),
		s.newRoute("GET /v1/verify/bulk/{job_id}", getJob, keyOrSession, store.ScopeJobs),
		s.newRoute("DELETE /v1/verify/bulk/{job_id}", deleteJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/pause", pauseJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/resume", resumeJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/cancel", cancelJob, keyOrSession, store.ScopeJobs),
		s.newRoute("GET /v1/verify/bulk/{job_id}/plan", getPlan, keyOrSession, store.ScopeJobs),
		s.newRoute("GET /v1/verify/bulk/{job_id}/results", getResults, keyOrSignature, store.ScopeJobs),
		s.newRoute("GET /v1/verify/bulk/{job_id}/callback", getCallback, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/callback", resendCallback, keyOrSession, store.ScopeJobs),
		s.newRoute("GET /v1/credits", getCredits, keyOrSession, store.ScopeVerify|store.ScopeJobs|store.ScopeAccount),
		s.newRoute("GET /v1/reasons", getReasons, anyone),
		s.newRoute("GET /v1/callback-origins", getOrigins, anyone),
		s.newRoute("POST /v1/verify/public", verifyPublic, anyone, jsonPayload, crossOrigin),
		s.newRoute("OPTIONS /v1/verify/public", preflight, anyone, crossOrigin),
		s.newRoute("POST /verify/public", verifyPublic, anyone, jsonPayload, crossOrigin),
		s.newRoute("OPTIONS /verify/public", preflight, anyone, crossOrigin),
		s.newRoute("GET /widget.js", (*call).getWidget, anyone),
		s.newRoute("GET /healthz", getHealth, anyone, whileDraining),
		s.newRoute("GET /readyz", getReadiness, anyone, whileDraining),
	}
	if !s.cfg.HideDocs {
		list = append(list, s.newRoute("GET /openapi.json", (*call).getDescription, anyone), s.newRoute("GET /docs", (*call).getDocs, anyone))
	}
	return slices.Concat(list, s.adminRoutes(), s.dashRoutes())
}

func (s *Server) adminRoutes() []*route {
	return []*route{
		s.newRoute("GET /v1/admin/users", listUsers, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users", addUser, adminKey, store.ScopeAdmin, jsonPayload),
		s.newRoute("POST /v1/admin/users/{user}/disable", disableUser, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users/{user}/enable", enableUser, adminKey, store.ScopeAdmin),
		s.newRoute("PUT /v1/admin/users/{user}/limits", setLimits, adminKey, store.ScopeAdmin, jsonPayload),
		s.newRoute("POST /v1/admin/users/{user}/reset", createResetLink, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users/{user}/totp-off", switchTOTPOffFor, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/keys", listKeys, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/keys", createKey, adminKey, store.ScopeAdmin, jsonPayload),
		s.newRoute("DELETE /v1/admin/keys/{key_id}", revokeKey, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/credits", getCreditsOf, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/credits", grantCredits, adminKey, store.ScopeAdmin, jsonPayload),
		s.newRoute("GET /v1/admin/ledger", getLedger, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/suppressions", listSuppressions, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/suppressions", suppress, adminKey, store.ScopeAdmin, jsonPayload),
		s.newRoute("DELETE /v1/admin/suppressions", unsuppress, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/erase", erase, adminKey, store.ScopeAdmin, jsonPayload),
		s.newRoute("GET /v1/admin/erasures", listErasures, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/erasures/{erasure_id}", getErasure, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/backup", sendBackup, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/audit", listAuditEvents, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/cluster", getCluster, adminKey, store.ScopeAdmin),
	}
}

// option is a property of a route without a type of its own.
type option uint8

const (
	whileDraining option = iota
	crossOrigin
)

// newRoute makes a route from a method and a path.
func (s *Server) newRoute(what string, handler func(*call) error, properties ...any) *route {
	method, path, _ := strings.Cut(what, " ")
	r := &route{method: method, path: strings.Split(path[1:], "/"), name: path, handler: handler}
	for _, p := range properties {
		switch p := p.(type) {
		case access:
			r.access = p
		case rateLimit:
			r.rateLimit = p
		case payload:
			r.payload = p
		case store.Scopes:
			r.scopes |= p
		case option:
			r.whileDraining = r.whileDraining || p == whileDraining
			r.crossOrigin = r.crossOrigin || p == crossOrigin
		}
	}
	if s.metrics != nil {
		s.metrics.bind(r)
	}
	return r
}

// findRoute finds the route of a path as it was sent, and the value of its parameter. For a path with other methods the refusal
// lists them; any other path is not found. HEAD is GET without a body.
func (s *Server) findRoute(method, path string) (*route, string, error) {
	if method == "HEAD" {
		method = "GET"
	}
	if r := s.findStatic([]byte(method), []byte(path)); r != nil {
		return r, "", nil
	}
	var allow []string
	for _, r := range s.routeTable {
		param, ok := r.matches(path)
		if ok && r.method == method {
			return r, param, nil
		}
		if ok {
			allow = append(allow, r.method)
			if r.method == "GET" {
				allow = append(allow, "HEAD")
			}
		}
	}
	if allow == nil {
		return nil, "", refuse(notFound, "Not found: check the path against /docs.")
	}
	notAllowed := refuse(wrongMethod, "This path does not take this method: use %s.", strings.Join(allow, ", "))
	notAllowed.allow = strings.Join(allow, ", ")
	return nil, "", notAllowed
}

// findStatic finds a route without parameters by its exact method and path; nil if there is none.
func (s *Server) findStatic(method, path []byte) *route {
	for _, r := range s.staticRoutes[string(path)] {
		if r.method == string(method) {
			return r
		}
	}
	return nil
}

// matches compares a path segment by segment. A parameter is one segment; only it may be percent-encoded.
func (r *route) matches(path string) (param string, ok bool) {
	if path == "" || path[0] != '/' {
		return "", false
	}
	rest := path[1:]
	for i, want := range r.path {
		segment, after, more := strings.Cut(rest, "/")
		if more != (i < len(r.path)-1) {
			return "", false
		}
		rest = after
		if want == segment {
			continue
		}
		if want == "" || want[0] != '{' || segment == "" || segment == "." || segment == ".." {
			return "", false
		}
		value, err := url.PathUnescape(segment)
		if err != nil {
			return "", false
		}
		param = value
	}
	return param, true
}
