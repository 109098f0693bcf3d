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
	anyone       access = iota
	keyOnly             // a key of any account, or a session
	adminKey            // a live key with the scope admin of an account with the role admin, or a session of one
	keyOrSig            // a key, or the signature of a link
	sessionOnly         // a session of the dashboard, never a key
	adminSession        // a session of an account with the role admin
)

// counted is the limit that a route counts against. Public requests are counted by their handler, once they are read.
type counted uint8

const (
	notCounted counted = iota
	asSingle
	asBulk
)

// payload is what body a route takes.
type payload uint8

const (
	noPayload payload = iota
	jsonPayload
	formPayload
)

// route is one method of one path.
type route struct {
	method  string
	path    []string // segments; "{...}" is a parameter
	name    string   // as in openapi.yaml, the label of logs and metrics
	access  access
	counted counted
	payload payload
	scopes  store.Scopes // a key needs one of them; a route that names none is opened by no key
	always  bool         // also while the server drains
	cross   bool         // pages of other origins may use it
	serve   func(*exchange) error

	usual   prometheus.Counter // of answers with 200
	seconds prometheus.Observer
}

// routes is the whole interface on one page.
func (s *Server) routes() []*route {
	list := []*route{
		s.on("POST /v1/verify/single", (*exchange).verifySingle, keyOnly, store.ScopeVerify, asSingle, jsonPayload),
		s.on("POST /v1/verify/bulk", (*exchange).createJob, keyOnly, store.ScopeJobs, asBulk, formPayload),
		s.on("GET /v1/verify/bulk", (*exchange).listJobs, keyOnly, store.ScopeJobs),
		s.on("GET /v1/verify/bulk/{job_id}", (*exchange).getJob, keyOnly, store.ScopeJobs),
		s.on("DELETE /v1/verify/bulk/{job_id}", (*exchange).deleteJob, keyOnly, store.ScopeJobs),
		s.on("POST /v1/verify/bulk/{job_id}/pause", (*exchange).pauseJob, keyOnly, store.ScopeJobs),
		s.on("POST /v1/verify/bulk/{job_id}/resume", (*exchange).resumeJob, keyOnly, store.ScopeJobs),
		s.on("POST /v1/verify/bulk/{job_id}/cancel", (*exchange).cancelJob, keyOnly, store.ScopeJobs),
		s.on("GET /v1/verify/bulk/{job_id}/plan", (*exchange).getPlan, keyOnly, store.ScopeJobs),
		s.on("GET /v1/verify/bulk/{job_id}/results", (*exchange).getResults, keyOrSig, store.ScopeJobs),
		s.on("GET /v1/verify/bulk/{job_id}/callback", (*exchange).getCallback, keyOnly, store.ScopeJobs),
		s.on("POST /v1/verify/bulk/{job_id}/callback", (*exchange).resendCallback, keyOnly, store.ScopeJobs),
		s.on("GET /v1/credits", (*exchange).getCredits, keyOnly, store.ScopeVerify|store.ScopeJobs|store.ScopeAccount),
		s.on("GET /v1/reasons", (*exchange).getReasons, anyone),
		s.on("GET /v1/callback-origins", (*exchange).getOrigins, anyone),
		s.on("POST /v1/verify/public", (*exchange).verifyPublic, anyone, jsonPayload, crossOrigin),
		s.on("OPTIONS /v1/verify/public", (*exchange).preflight, anyone, crossOrigin),
		s.on("POST /verify/public", (*exchange).verifyPublic, anyone, jsonPayload, crossOrigin),
		s.on("OPTIONS /verify/public", (*exchange).preflight, anyone, crossOrigin),
		s.on("GET /widget.js", (*exchange).getWidget, anyone),
		s.on("GET /healthz", (*exchange).getHealth, anyone, whileDraining),
		s.on("GET /readyz", (*exchange).getReadiness, anyone, whileDraining),
	}
	if !s.cfg.HideDocs {
		list = append(list, s.on("GET /openapi.json", (*exchange).getDescription, anyone), s.on("GET /docs", (*exchange).getDocs, anyone))
	}
	return slices.Concat(list, s.adminRoutes(), s.dashRoutes())
}

func (s *Server) adminRoutes() []*route {
	return []*route{
		s.on("GET /v1/admin/users", (*exchange).listUsers, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/users", (*exchange).addUser, adminKey, store.ScopeAdmin, jsonPayload),
		s.on("POST /v1/admin/users/{user}/disable", (*exchange).disableUser, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/users/{user}/enable", (*exchange).enableUser, adminKey, store.ScopeAdmin),
		s.on("PUT /v1/admin/users/{user}/limits", (*exchange).setLimits, adminKey, store.ScopeAdmin, jsonPayload),
		s.on("POST /v1/admin/users/{user}/reset", (*exchange).makeReset, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/users/{user}/totp-off", (*exchange).switchTOTPOffFor, adminKey, store.ScopeAdmin),
		s.on("GET /v1/admin/keys", (*exchange).listKeys, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/keys", (*exchange).createKey, adminKey, store.ScopeAdmin, jsonPayload),
		s.on("DELETE /v1/admin/keys/{key_id}", (*exchange).revokeKey, adminKey, store.ScopeAdmin),
		s.on("GET /v1/admin/credits", (*exchange).getCreditsOf, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/credits", (*exchange).grantCredits, adminKey, store.ScopeAdmin, jsonPayload),
		s.on("GET /v1/admin/ledger", (*exchange).getLedger, adminKey, store.ScopeAdmin),
		s.on("GET /v1/admin/suppressions", (*exchange).listSuppressions, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/suppressions", (*exchange).suppress, adminKey, store.ScopeAdmin, jsonPayload),
		s.on("DELETE /v1/admin/suppressions", (*exchange).unsuppress, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/erase", (*exchange).erase, adminKey, store.ScopeAdmin, jsonPayload),
		s.on("GET /v1/admin/erasures", (*exchange).listErasures, adminKey, store.ScopeAdmin),
		s.on("GET /v1/admin/erasures/{erasure_id}", (*exchange).getErasure, adminKey, store.ScopeAdmin),
		s.on("POST /v1/admin/backup", (*exchange).sendBackup, adminKey, store.ScopeAdmin),
		s.on("GET /v1/admin/audit", (*exchange).listActs, adminKey, store.ScopeAdmin),
		s.on("GET /v1/admin/cluster", (*exchange).getCluster, adminKey, store.ScopeAdmin),
	}
}

// option is a property of a route that has no type of its own.
type option uint8

const (
	whileDraining option = iota
	crossOrigin
)

// on makes a route of a method and a path.
func (s *Server) on(what string, serve func(*exchange) error, properties ...any) *route {
	method, path, _ := strings.Cut(what, " ")
	r := &route{method: method, path: strings.Split(path[1:], "/"), name: path, serve: serve}
	for _, p := range properties {
		switch p := p.(type) {
		case access:
			r.access = p
		case counted:
			r.counted = p
		case payload:
			r.payload = p
		case store.Scopes:
			r.scopes |= p
		case option:
			r.always = r.always || p == whileDraining
			r.cross = r.cross || p == crossOrigin
		}
	}
	if s.meters != nil {
		s.meters.of(r)
	}
	return r
}

// find is the route of a path as it was sent, and the value of its parameter. A path with other methods is refused
// with them, any other as not found. HEAD is GET without a body.
func (s *Server) find(method, path string) (*route, string, error) {
	if method == "HEAD" {
		method = "GET"
	}
	if r := s.findFixed([]byte(method), []byte(path)); r != nil {
		return r, "", nil
	}
	var allow []string
	for _, r := range s.table {
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
		return nil, "", refuse(notFound, "There is nothing at this path: check it against the description of the interface.")
	}
	no := refuse(wrongMethod, "This path does not take this method: use %s.", strings.Join(allow, ", "))
	no.allow = strings.Join(allow, ", ")
	return nil, "", no
}

// findFixed is the route of a path that has no parameter; nil when there is none of just that method and path.
func (s *Server) findFixed(method, path []byte) *route {
	for _, r := range s.fixed[string(path)] {
		if r.method == string(method) {
			return r
		}
	}
	return nil
}

// matches compares a path segment by segment. A parameter is one segment, which alone may be percent-encoded.
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
