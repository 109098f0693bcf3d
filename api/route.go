package api

import (
	"slices"
	"strings"

	"probity/api/compare"
	"probity/api/feedback"
	"probity/api/httpd"
	"probity/api/tus"
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

// rateLimit is the limit that a route counts against. The handler of public requests counts them after it has read
// them.
type rateLimit uint8

const (
	noRateLimit rateLimit = iota
	singleLimit
	batchLimit
	bulkLimit
	domainLimit
)

// counted is what each limit counts.
var counted = [...]string{singleLimit: "single verification", batchLimit: "batch", bulkLimit: "upload",
	domainLimit: "request about a domain"}

// route is one method of one path.
type route struct {
	httpd.Route
	access      access
	rateLimit   rateLimit
	scopes      store.Scopes // a key needs one of them; without any, no key may use the route
	crossOrigin bool         // pages of other origins may use it
}

// routes are all routes of the API.
func (s *Server) routes() []*route {
	list := []*route{
		s.newRoute("POST /v1/verify/single", verifySingle, keyOrSession, store.ScopeVerify, singleLimit),
		s.newRoute("POST /v1/verify/batch", verifyBatch, keyOrSession, store.ScopeVerify, batchLimit,
			maxBody(maxBatchBody)),
		s.newRoute("POST /v1/verify/bulk", createJob, keyOrSession, store.ScopeJobs, bulkLimit),
		s.newRoute("GET /v1/verify/bulk", listJobs, keyOrSession, store.ScopeJobs),
		s.newRoute("GET /v1/verify/bulk/{job_id}", getJob, keyOrSession, store.ScopeJobs),
		s.newRoute("DELETE /v1/verify/bulk/{job_id}", deleteJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/start", startJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/pause", pauseJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/resume", resumeJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/cancel", cancelJob, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/recheck", recheckJob, keyOrSession, store.ScopeJobs, bulkLimit),
		s.newRoute("GET /v1/verify/bulk/{job_id}/plan", getPlan, keyOrSession, store.ScopeJobs),
		s.newRoute("GET /v1/verify/bulk/{job_id}/why", explainJob, keyOrSession, store.ScopeJobs|store.ScopeAdmin),
		s.newRoute("GET /v1/verify/bulk/{job_id}/results", getResults, keyOrSignature, store.ScopeJobs),
		s.newRoute("GET /v1/verify/bulk/{job_id}/callback", getCallback, keyOrSession, store.ScopeJobs),
		s.newRoute("POST /v1/verify/bulk/{job_id}/callback", resendCallback, keyOrSession, store.ScopeJobs),
		s.newRoute("OPTIONS "+tus.Path, resumable((*tus.Store).SendOptions), anyone),
		s.newRoute("POST "+tus.Path, resumable((*tus.Store).Create), keyOrSession, store.ScopeJobs),
		s.newRoute("GET "+tus.Path+"/{upload_id}", resumable((*tus.Store).Show), keyOrSession, store.ScopeJobs),
		s.newRoute("PATCH "+tus.Path+"/{upload_id}", resumable((*tus.Store).Append), keyOrSession,
			store.ScopeJobs),
		s.newRoute("DELETE "+tus.Path+"/{upload_id}", resumable((*tus.Store).Delete), keyOrSession,
			store.ScopeJobs),
		s.newRoute("GET /v1/domains/{domain}", getDomain, keyOrSession, store.ScopeVerify|store.ScopeJobs, domainLimit),
		s.newRoute("GET /v1/credits", getCredits, keyOrSession, store.ScopeVerify|store.ScopeJobs|store.ScopeAccount),
		s.newRoute("GET /v1/verifications", listVerifications, keyOrSession, store.ScopeAccount),
		s.newRoute("GET /v1/requests", listRequests, keyOrSession, store.ScopeAccount),
		s.newRoute("GET /v1/callbacks", listCallbacks, keyOrSession, store.ScopeJobs|store.ScopeAccount),
		s.newRoute("POST /v1/callbacks/{callback_id}/replay", replayCallback, keyOrSession, store.ScopeJobs),
		s.newRoute("GET /v1/usage", getUsage, keyOrSession, store.ScopeAccount),
		s.newRoute("GET /v1/callback-secret", getSigning, keyOrSession, store.ScopeAccount),
		s.newRoute("POST /v1/callback-secret", newSigningSecret, keyOrSession, store.ScopeAccount),
		s.newRoute("DELETE /v1/callback-secret", dropSigningSecrets, keyOrSession, store.ScopeAccount),
		s.newRoute("POST /v1/receipts", createReceipt, keyOrSession, store.ScopeVerify|store.ScopeJobs),
		s.newRoute("GET /v1/receipt-keys", getReceiptKeys, anyone),
		s.newRoute("POST /v1/feedback", receiveFeedback, keyOrSession, store.ScopeVerify|store.ScopeJobs,
			maxBody(feedback.MaxBody)),
		s.newRoute("POST /v1/compare", compareJob, keyOrSession, store.ScopeJobs, maxBody(compare.MaxBody)),
		s.newRoute("GET /v1/accuracy", getAccuracy, keyOrSession, store.ScopeVerify|store.ScopeJobs|store.ScopeAccount),
		s.newRoute("GET /v1/reasons", getReasons, anyone),
		s.newRoute("GET /v1/callback-origins", getOrigins, anyone),
		s.newRoute("POST /v1/verify/public", verifyPublic, anyone, crossOrigin),
		s.newRoute("OPTIONS /v1/verify/public", preflight, anyone, crossOrigin),
		s.newRoute("POST /verify/public", verifyPublic, anyone, crossOrigin),
		s.newRoute("OPTIONS /verify/public", preflight, anyone, crossOrigin),
		s.newRoute("GET /widget.js", getWidget, anyone),
		s.newRoute("GET /healthz", getHealth, anyone, whileDraining),
		s.newRoute("GET /readyz", getReadiness, anyone, whileDraining),
	}
	if !s.cfg.HideDocs {
		list = append(list, s.newRoute("GET /openapi.json", getDescription, anyone),
			s.newRoute("GET /docs", getDocs, anyone))
	}
	return slices.Concat(list, s.adminRoutes(), s.dashRoutes())
}

func (s *Server) adminRoutes() []*route {
	return []*route{
		s.newRoute("GET /v1/admin/users", listUsers, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users", addUser, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users/{user}/disable", disableUser, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users/{user}/enable", enableUser, adminKey, store.ScopeAdmin),
		s.newRoute("PUT /v1/admin/users/{user}/limits", setLimits, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users/{user}/callback-secret", newSigningSecretFor, adminSession),
		s.newRoute("DELETE /v1/admin/users/{user}/callback-secret", dropSigningSecretsOf, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/users/{user}/reset", createResetLink, adminSession),
		s.newRoute("POST /v1/admin/users/{user}/totp-off", switchTOTPOffFor, adminSession),
		s.newRoute("GET /v1/admin/keys", listKeys, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/keys", createKey, adminKey, store.ScopeAdmin),
		s.newRoute("DELETE /v1/admin/keys/{key_id}", revokeKey, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/credits", getCreditsOf, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/credits", grantCredits, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/ledger", getLedger, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/suppressions", listSuppressions, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/suppressions", suppress, adminKey, store.ScopeAdmin),
		s.newRoute("DELETE /v1/admin/suppressions", unsuppress, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/erase", eraseAddress, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/erasures", listErasures, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/erasures/{erasure_id}", getErasure, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/backup", sendBackup, adminKey, store.ScopeAdmin),
		s.newRoute("GET /v1/admin/audit", listAuditEvents, adminKey, store.ScopeAdmin),
		s.newRoute("POST /v1/admin/receipt-keys", newReceiptKey, adminSession),
		s.newRoute("GET /v1/admin/cluster", getCluster, adminKey, store.ScopeAdmin),
	}
}

// maxBody bounds the JSON body of a route, in bytes.
type maxBody int64

// option is a property of a route without a type of its own.
type option uint8

const (
	whileDraining option = iota
	crossOrigin
	pageQuery
)

// newRoute makes a route of an operation of the description: a method and a path. What its requests may contain is
// described there.
func (s *Server) newRoute(operation string, handler func(*call) error, properties ...any) *route {
	method, path, _ := strings.Cut(operation, " ")
	content, ok := s.described[operation]
	if !ok {
		panic("BUG: " + operation + " is not in the description")
	}
	r := &route{Route: httpd.Route{Method: method, Path: path, Content: content}}
	for _, p := range properties {
		switch p := p.(type) {
		case access:
			r.access = p
		case rateLimit:
			r.rateLimit, r.Frequent = p, p == singleLimit
		case maxBody:
			r.MaxBody = int64(p)
		case store.Scopes:
			r.scopes |= p
		case option:
			r.WhileDraining = r.WhileDraining || p == whileDraining
			r.crossOrigin = r.crossOrigin || p == crossOrigin
			r.PageQuery = r.PageQuery || p == pageQuery
		}
	}
	r.Admit = func(request *httpd.Call) error { return s.admit(request, r) }
	r.Handle = func(request *httpd.Call) error { return handler(request.App.(*call)) }
	return r
}
