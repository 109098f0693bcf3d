package api

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/compare"
	"probity/api/feedback"
	"probity/api/httpd"
	"probity/api/listform"
	"probity/api/record"
	"probity/coordinator"
	"probity/engine"
	"probity/store"
)

// notCovered are the described answers that no request of the tests below causes, and why.
var notCovered = map[string]string{
	"400": "a header that cannot be read belongs to no operation; TestMalformedRequests meets it",
	"500": "the disk would have to fail",
}

// TestEveryDescribedAnswerIsMet causes each answer that the description has for customers, and so checks each against
// its schema: a described answer must be able to occur.
func TestEveryDescribedAnswerIsMet(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.MaxUpload, c.CORSOrigins = 100_000, []string{"https://shop.example"} })
	key := w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeVerify | store.ScopeJobs | store.ScopeAccount})
	c := &coverage{w: w, key: key, browser: w.signIn("visitor@probity.test", store.Customer)}
	served := w.get("/openapi.json", "").json(t)["paths"].(map[string]any)
	c.pages()
	c.singles()
	c.batches()
	c.uploads()
	c.resumable()
	c.jobs()
	c.domains()
	c.feedback()
	c.compare()
	c.public()
	c.withoutKey()
	c.unknownParameters()
	c.outOfScope()
	c.draining()
	hidden := newTestServer(t, func(c *Config) { c.HideDocs = true })
	hidden.contract = w.contract
	hidden.get("/docs", "")
	hidden.get("/openapi.json", "")
	for path, item := range loadDescription(t).Paths.Map() {
		require.Equal(t, isForCustomers(path), served[path] != nil, path)
		if !isForCustomers(path) {
			continue
		}
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if met := w.contract.wasSeen(op.OperationID, status); !met && notCovered[status] == "" {
					t.Errorf("%s %s is never answered with %s", method, path, status)
				}
			}
		}
	}
}

// isForCustomers reports whether a path is neither for admins nor of the dashboard.
func isForCustomers(path string) bool {
	return path != "/" && !slices.ContainsFunc([]string{"/v1/admin/", "/v1/dash/", "/app", "/assets/"},
		func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// coverage sends the requests that cause the answers.
type coverage struct {
	w       *testServer
	key     string
	browser *browser
	job     string // path of a finished job with a callback
}

func (c *coverage) expect(status int, r reply) reply {
	c.w.t.Helper()
	require.Equal(c.w.t, status, r.status, "%s", r.body)
	return r
}

func (c *coverage) post(path, key string) reply {
	return c.w.do(request{method: "POST", path: path, key: key})
}

func (c *coverage) pages() {
	for _, path := range []string{"/docs", "/openapi.json", "/healthz", "/readyz", "/widget.js", "/v1/reasons",
		"/v1/callback-origins", "/v1/receipt-keys"} {
		c.expect(200, c.w.get(path, ""))
	}
	for _, path := range []string{"/v1/credits", "/v1/verifications", "/v1/requests", "/v1/callbacks",
		"/v1/usage"} {
		c.expect(200, c.w.get(path, c.key))
	}
	c.expect(201, c.post("/v1/callback-secret", c.key))
	c.expect(200, c.w.get("/v1/callback-secret", c.key))
	c.expect(204, c.w.do(request{method: "DELETE", path: "/v1/callback-secret", key: c.key}))
	for _, path := range []string{"/docs", "/openapi.json", "/widget.js"} {
		tag := c.w.get(path, "").header.Get("ETag")
		c.expect(304, c.w.do(request{method: "GET", path: path, header: map[string]string{"If-None-Match": tag}}))
	}
}

// outOfScope uses keys outside their scopes.
func (c *coverage) outOfScope() {
	none := c.w.newKey(c.w.admin.ID, store.NewKey{Scopes: store.ScopeAdmin})
	verifyOnly := c.w.newKey(c.w.admin.ID, store.NewKey{Scopes: store.ScopeVerify})
	for _, r := range c.w.server.routeTable {
		if r.access == keyOrSession || r.access == keyOrSignature {
			key := none
			if r.scopes&store.ScopeAdmin != 0 {
				key = verifyOnly
			}
			c.expect(403, c.w.do(request{method: r.Method, path: strings.Replace(r.Path, "{job_id}", "x", 1),
				key: key}))
		}
	}
}

func (c *coverage) singles() {
	w := c.w
	ok := `{"email":"ann@shop.test"}`
	c.expect(200, w.single(ok))
	c.expect(400, w.single(`{`))
	c.expect(413, w.single(strings.Repeat(" ", httpd.MaxJSON+1)))
	c.expect(422, w.single(`{}`))
	c.expect(415, w.do(request{method: "POST", path: "/v1/verify/single", key: c.key, body: strings.NewReader(ok)}))
	_, poor := w.addCustomer("poor@probity.test", 0)
	c.expect(402, w.post("/v1/verify/single", poor, ok))
	c.expect(402, w.upload(poor, nil, part{"file", "l.csv", "email\na@shop.test\n"}))
	c.expect(429, w.post("/v1/verify/single", w.testKey, `{"email":"http_429@example.com"}`))
	c.expect(500, w.post("/v1/verify/single", w.testKey, `{"email":"http_500@example.com"}`))
	c.inFlight("/v1/verify/single", (&singleRequest{"ann@shop.test",
		verifyOptions{checkSMTP: true, timeout: defaultTimeout * time.Second,
			maxAge: coordinator.DefaultMaxAge}, false, ""}).digest(), func(h map[string]string) reply {
		h["Content-Type"] = "application/json"
		return w.do(request{method: "POST", path: "/v1/verify/single", key: c.key, body: strings.NewReader(ok),
			header: h})
	})
}

func (c *coverage) batches() {
	w := c.w
	const path, ok = "/v1/verify/batch", `{"emails":["ann@shop.test"]}`
	c.expect(200, w.post(path, c.key, ok))
	c.expect(400, w.post(path, c.key, `{`))
	c.expect(413, w.post(path, c.key, strings.Repeat(" ", maxBatchBody+1)))
	c.expect(415, w.do(request{method: "POST", path: path, key: c.key, body: strings.NewReader(ok)}))
	c.expect(422, w.post(path, c.key, `{}`))
	_, poor := w.addCustomer("poorer@probity.test", 0)
	c.expect(402, w.post(path, poor, ok))
	c.expect(429, w.post(path, w.testKey, `{"emails":["http_429@example.com"]}`))
	c.expect(500, w.post(path, w.testKey, `{"emails":["http_500@example.com"]}`))
	q := verifyOptions{checkSMTP: true, timeout: defaultBatchTimeout * time.Second, maxAge: coordinator.DefaultMaxAge}
	c.inFlight(path, sha256.Sum256(fmt.Appendf(nil, "%q %+v", []string{"ann@shop.test"}, q)),
		func(h map[string]string) reply {
			h["Content-Type"] = "application/json"
			return w.do(request{method: "POST", path: path, key: c.key, body: strings.NewReader(ok), header: h})
		})
}

// inFlight sends a request while another with its Idempotency-Key is in progress.
func (c *coverage) inFlight(endpoint string, digest store.KeyHash, send func(map[string]string) reply) {
	r := store.Request{Account: c.w.user.ID, Endpoint: endpoint, Key: "k", Digest: digest}
	_, _, err := c.w.store.BeginRequest(r, time.Now())
	require.NoError(c.w.t, err)
	c.expect(409, send(map[string]string{"Idempotency-Key": "k"}))
	c.w.store.EndRequest(r)
}

func (c *coverage) uploads() {
	w := c.w
	file := part{"file", "l.csv", "email\na@shop.test\n"}
	whole, kind := encodeForm(file)
	send := func(body string, h map[string]string) reply {
		header := map[string]string{"Content-Type": kind}
		for k, v := range h {
			header[k] = v
		}
		return w.do(request{method: "POST", path: "/v1/verify/bulk", key: c.key, header: header,
			body: strings.NewReader(body)})
	}
	c.expect(400, send(whole[:len(whole)-10], nil))
	c.expect(413, send(whole+strings.Repeat(" ", 100_000), nil))
	c.expect(415, w.post("/v1/verify/bulk", c.key, `{}`))
	c.expect(422, w.upload(c.key, nil, part{"name", "", "x"}))
	sum := sha256.Sum256([]byte(file.content))
	digest := sha256.Sum256(fmt.Appendf(nil, "%x %q %+v", sum, "l.csv", listform.Default()))
	c.inFlight("/v1/verify/bulk", digest, func(h map[string]string) reply { return send(whole, h) })
	c.expect(202, w.upload(c.key, nil, file, part{"callback_url", "", "http://127.0.0.1:9/"}))
	u, few := w.addCustomer("few@probity.test", 10)
	require.NoError(w.t, w.store.SetLimits(u.ID, store.Limits{BulkPerHour: 1}, "test", time.Now()))
	w.upload(few, nil, file)
	c.expect(429, w.upload(few, nil, file))
}

// resumable makes a resumable upload.
func (c *coverage) resumable() {
	w := c.w
	const content = "email\na@shop.test\n"
	c.expect(204, w.do(request{method: "OPTIONS", path: "/v1/uploads"}))
	at := c.expect(201, w.tus("POST", "/v1/uploads", c.key, "", "Upload-Length", "100")).header.Get("Location")
	for _, headers := range [][]string{{"Upload-Length", "x"}, {"Upload-Length", "0"}, {},
		{"Upload-Length", "9", "Upload-Metadata", "filename ?"}} {
		c.expect(400, w.tus("POST", "/v1/uploads", c.key, "", headers...))
	}
	c.expect(412, w.tus("POST", "/v1/uploads", c.key, "", "Upload-Length", "100", "Tus-Resumable", "0.2.0"))
	c.expect(413, w.tus("POST", "/v1/uploads", c.key, "", "Upload-Length", "99999999999"))
	c.expect(200, w.tus("GET", at, c.key, ""))
	c.expect(412, w.tus("GET", at, c.key, "", "Tus-Resumable", ""))
	c.expect(204, w.tus("PATCH", at, c.key, content, "Upload-Offset", "0"))
	c.expect(400, w.tus("PATCH", at, c.key, content))
	c.expect(409, w.tus("PATCH", at, c.key, content, "Upload-Offset", "0"))
	c.expect(422, w.upload(c.key, nil, part{"upload_id", "", at}))
	c.expect(404, w.upload(c.key, nil, part{"upload_id", "", "none"}))
	c.expect(412, w.tus("PATCH", at, c.key, content, "Upload-Offset", "18", "Tus-Resumable", "2"))
	c.expect(413, w.tus("PATCH", at, c.key, strings.Repeat("x", 83), "Upload-Offset", "18"))
	c.expect(415, w.tus("PATCH", at, c.key, content, "Upload-Offset", "18", "Content-Type", "text/csv"))
	c.expect(400, w.tus("PATCH", at, c.key, content, "Upload-Offset", "18", "Upload-Checksum", "md5 AAAA"))
	c.expect(460, w.tus("PATCH", at, c.key, content, "Upload-Offset", "18", "Upload-Checksum", "sha1 AAAA"))
	c.expect(412, w.tus("DELETE", at, c.key, "", "Tus-Resumable", ""))
	c.expect(204, w.tus("DELETE", at, c.key, ""))
	at = w.tus("POST", "/v1/uploads", c.key, "", "Upload-Length", "18").header.Get("Location")
	w.tus("PATCH", at, c.key, content, "Upload-Offset", "0")
	file, err := w.server.deps.Uploads.OpenFile(w.user.ID, at)
	require.NoError(w.t, err)
	c.expect(409, w.tus("DELETE", at, c.key, ""))
	require.NoError(w.t, file.Close())
	for range 19 {
		c.expect(201, w.tus("POST", "/v1/uploads", c.key, "", "Upload-Length", "100"))
	}
	c.expect(429, w.tus("POST", "/v1/uploads", c.key, "", "Upload-Length", "100"))
}

func (c *coverage) jobs() {
	w := c.w
	c.expect(200, w.get("/v1/verify/bulk", c.key))
	c.expect(422, w.get("/v1/verify/bulk?limit=0", c.key))
	release := w.prober.holdAnswers()
	defer release()
	u, few := w.addCustomer("few2@probity.test", 1)
	two := c.expect(202, w.upload(few, nil, part{"start", "", "false"},
		part{"file", "l.csv", "email\na@shop.test\nb@shop.test\n"})).header.Get("Location")
	c.expect(402, c.post(two+"/start", few))
	require.Equal(w.t, 200, w.post("/v1/admin/credits", w.adminKey, `{"user":"`+u.ID+`","amount":1}`).status)
	c.expect(200, c.post(two+"/start", few))
	path := c.expect(202, w.upload(c.key, nil, part{"file", "l.csv", "email\na@shop.test\n"},
		part{"callback_url", "", "http://127.0.0.1:9/"})).header.Get("Location")
	c.expect(200, w.get(path, c.key))
	c.expect(422, w.get(path+"?wait=x", c.key))
	c.expect(200, w.get(path+"/plan?sources=3&refused=50", c.key))
	c.expect(422, w.get(path+"/plan?sources=0", c.key))
	c.expect(200, w.get(path+"/why", c.key))
	c.expect(409, w.get(path+"/results", c.key))
	c.expect(409, c.post(path+"/callback", c.key))
	c.expect(409, w.do(request{method: "DELETE", path: path, key: c.key}))
	c.expect(200, c.post(path+"/pause", c.key))
	c.expect(200, c.post(path+"/resume", c.key))
	c.expect(200, c.post(path+"/cancel", c.key))
	release()
	w.waitForJob(c.key, path[len(record.BulkPath)+1:])
	for _, action := range []string{"/start", "/pause", "/resume"} {
		c.expect(409, c.post(path+action, c.key))
	}
	c.expect(409, w.get(path+"/plan", c.key))
	finished := w.uploadAndWait(c.key, part{"file", "l.csv", "email\na@shop.test\n"},
		part{"callback_url", "", "http://127.0.0.1:9/"})
	c.job = "/v1/verify/bulk/" + finished["job_id"].(string)
	c.expect(409, c.post(c.job+"/cancel", c.key))
	c.expect(202, c.post(c.job+"/callback", c.key))
	replay := "/v1/callbacks/" + finished["job_id"].(string) + "/replay"
	c.expect(202, c.post(replay, c.key))
	c.expect(200, w.get(c.job+"/callback", c.key))
	expired := w.uploadAndWait(c.key, part{"callback_url", "", "http://127.0.0.1:1/done"},
		part{"file", "l.csv", "email\na@shop.test\n"})
	_, err := w.store.UpdateJob(expired["job_id"].(string),
		func(j *store.Job) error { j.State = store.JobExpired; return nil })
	require.NoError(w.t, err)
	c.expect(409, c.post("/v1/callbacks/"+expired["job_id"].(string)+"/replay", c.key))
	c.results(c.job + "/results")
	c.recheck(few)
	c.receipts()
	c.expect(204, w.do(request{method: "DELETE", path: path, key: c.key}))
}

func (c *coverage) results(path string) {
	w := c.w
	tag := c.expect(200, w.get(path, c.key)).header.Get("ETag")
	c.expect(304, w.do(request{method: "GET", path: path, key: c.key, header: map[string]string{"If-None-Match": tag}}))
	c.expect(422, w.get(path+"?format=x", c.key))
	c.expect(206, w.do(request{method: "GET", path: path + "?compress=zstd", key: c.key,
		header: map[string]string{"Range": "bytes=0-1"}}))
	c.expect(416, w.do(request{method: "GET", path: path + "?compress=zstd", key: c.key,
		header: map[string]string{"Range": "bytes=99999-"}}))
	c.expect(403, w.get(path+"?expires=1&signature=x", ""))
	gone := w.uploadAndWait(c.key, part{"file", "l.csv", "email\na@shop.test\n"})["job_id"].(string)
	_, err := w.store.UpdateJob(gone, func(j *store.Job) error { j.State = store.JobExpired; return nil })
	require.NoError(w.t, err)
	c.expect(410, w.get("/v1/verify/bulk/"+gone+"/results", c.key))
}

func (c *coverage) receipts() {
	w, path := c.w, "/v1/receipts"
	of := func(job map[string]any) string { return `{"row":1,"job_id":"` + job["job_id"].(string) + `"}` }
	done := w.uploadAndWait(c.key, part{"details", "", "true"}, part{"file", "l.csv", "email\na@shop.test\n"})
	c.expect(200, w.post(path, c.key, of(done)))
	c.expect(400, w.post(path, c.key, `{`))
	c.expect(401, w.post(path, "", of(done)))
	c.expect(413, w.post(path, c.key, strings.Repeat(" ", httpd.MaxJSON+1)))
	c.expect(415, c.post(path, c.key))
	c.expect(404, w.post(path, c.key, `{"row":1,"job_id":"none"}`))
	c.expect(422, w.post(path, c.key, `{"row":1}`))
	list := part{"file", "l.csv", "email\na@shop.test\n"}
	held := w.upload(c.key, nil, part{"details", "", "true"}, part{"start", "", "false"}, list).json(w.t)
	c.expect(409, w.post(path, c.key, of(held)))
	_, err := w.store.UpdateJob(done["job_id"].(string),
		func(j *store.Job) error { j.State = store.JobExpired; return nil })
	require.NoError(w.t, err)
	c.expect(410, w.post(path, c.key, of(done)))
}

func (c *coverage) recheck(poor string) {
	w, path, valid := c.w, c.job+"/recheck", `{"status":["VALID"]}`
	c.expect(202, w.post(path, c.key, valid))
	c.expect(400, w.post(path, c.key, `{`))
	c.expect(413, w.post(path, c.key, strings.Repeat(" ", httpd.MaxJSON+1)))
	c.expect(415, c.post(path, c.key))
	c.expect(422, w.post(path, c.key, `{"status":["UNKNOWN"]}`))
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %v", path[len(record.BulkPath)+1:len(path)-len("/recheck")],
		[]engine.Reason{engine.ReasonNone}))
	c.inFlight(record.BulkPath+"/{job_id}/recheck", digest, func(h map[string]string) reply {
		h["Content-Type"] = "application/json"
		return w.do(request{method: "POST", path: path, key: c.key, header: h, body: strings.NewReader(valid)})
	})
	gone := w.uploadAndWait(c.key, part{"file", "l.csv", "email\na@shop.test\n"})["job_id"].(string)
	_, err := w.store.UpdateJob(gone, func(j *store.Job) error { j.State = store.JobExpired; return nil })
	require.NoError(w.t, err)
	c.expect(410, w.post("/v1/verify/bulk/"+gone+"/recheck", c.key, valid))
	few := w.get("/v1/verify/bulk", poor).json(w.t)["jobs"].([]any)[0].(map[string]any)["job_id"].(string)
	w.waitForJob(poor, few)
	c.expect(402, w.post("/v1/verify/bulk/"+few+"/recheck", poor, valid))
	u, err := w.store.Job(few)
	require.NoError(w.t, err)
	require.NoError(w.t, w.store.SetLimits(u.Account, store.Limits{BulkPerHour: 1}, "test", time.Now()))
	c.expect(429, w.post("/v1/verify/bulk/"+few+"/recheck", poor, valid))
}

func (c *coverage) domains() {
	w := c.w
	c.expect(200, w.get("/v1/domains/shop.test", c.key))
	c.expect(422, w.get("/v1/domains/-", c.key))
	w.prober.fail.Store(true)
	c.expect(500, w.get("/v1/domains/shop.test", c.key))
	w.prober.fail.Store(false)
	_, often := w.addCustomer("often@probity.test", 0)
	for range store.DomainsPerMinute {
		c.expect(200, w.get("/v1/domains/shop.test", often))
	}
	c.expect(429, w.get("/v1/domains/shop.test", often))
}

func (c *coverage) feedback() {
	w := c.w
	const path, ok = "/v1/feedback", `{"reports":[{"email":"ann@shop.test","outcome":"delivered","at":"2026-03-01T12:00:00Z"}]}`
	c.expect(202, w.post(path, c.key, ok))
	c.expect(413, w.post(path, c.key, strings.Repeat(" ", feedback.MaxBody+1)))
	c.expect(415, w.do(request{method: "POST", path: path, key: c.key, body: strings.NewReader(ok)}))
	c.expect(422, w.post(path, c.key, `{}`))
	w.book.Limit = 0
	c.expect(429, w.post(path, c.key, ok))
	c.expect(200, w.get("/v1/accuracy", c.key))
}

func (c *coverage) compare() {
	w, ok := c.w, "email,status\na@shop.test,VALID\n"
	list := part{"file", "l.csv", "email\na@shop.test\n"}
	query := "job_id=" + w.uploadAndWait(c.key, list)["job_id"].(string)
	c.expect(200, w.compare(c.key, query, ok))
	c.expect(404, w.compare(c.key, "job_id=none", ok))
	c.expect(413, w.compare(c.key, query, strings.Repeat(" ", compare.MaxBody+1)))
	c.expect(415, w.do(request{method: "POST", path: "/v1/compare?" + query, key: c.key, body: strings.NewReader(ok)}))
	c.expect(422, w.compare(c.key, query, "mail\n"))
	held := w.upload(c.key, nil, part{"start", "", "false"}, list).json(w.t)["job_id"].(string)
	c.expect(409, w.compare(c.key, "job_id="+held, ok))
	gone := w.uploadAndWait(c.key, list)["job_id"].(string)
	_, err := w.store.UpdateJob(gone, func(j *store.Job) error { j.State = store.JobExpired; return nil })
	require.NoError(w.t, err)
	c.expect(410, w.compare(c.key, "job_id="+gone, ok))
}

func (c *coverage) public() {
	w := c.w
	ok := `{"email":"ann@shop.test"}`
	for i, path := range []string{"/verify/public", "/v1/verify/public"} {
		w.clockOffset.Store(int64(i) * int64(24*time.Hour+time.Second))
		c.expect(200, w.post(path, "", ok))
		c.expect(400, w.post(path, "", `{`))
		c.expect(413, w.post(path, "", strings.Repeat(" ", httpd.MaxJSON+1)))
		c.expect(415, w.do(request{method: "POST", path: path, body: strings.NewReader(ok)}))
		c.expect(422, w.post(path, "", `{}`))
		for origin, status := range map[string]int{"https://shop.example": 204, "https://evil.example": 403} {
			c.expect(status, w.do(request{method: "OPTIONS", path: path, header: map[string]string{"Origin": origin}}))
		}
		c.expect(403, w.do(request{method: "POST", path: path, body: strings.NewReader(ok),
			header: map[string]string{"Origin": "https://evil.example", "Content-Type": "application/json"}}))
		w.prober.fail.Store(true)
		c.expect(500, w.post(path, "", ok))
		w.prober.fail.Store(false)
		c.expect(200, w.post(path, "", ok))
		c.expect(429, w.post(path, "", ok))
	}
	w.clockOffset.Store(0)
}

// keyed are the operations that require a key.
func (c *coverage) keyed(job string) (list []request) {
	for _, what := range []string{"POST /v1/verify/single", "POST /v1/verify/batch", "POST /v1/verify/bulk",
		"GET /v1/verify/bulk", "GET /v1/domains/shop.test",
		"GET /v1/credits", "GET /v1/verifications", "GET /v1/requests", "GET /v1/usage", "POST /v1/receipts",
		"POST /v1/feedback", "GET /v1/accuracy", "POST /v1/compare",
		"GET /v1/callbacks", "POST /v1/callbacks/" + job[strings.LastIndex(job, "/")+1:] + "/replay",
		"GET /v1/callback-secret", "POST /v1/callback-secret", "DELETE /v1/callback-secret", "GET " + job,
		"DELETE " + job,
		"POST " + job + "/start", "POST " + job + "/recheck", "POST " + job + "/pause", "POST " + job + "/resume",
		"POST " + job + "/cancel", "GET " + job + "/plan", "GET " + job + "/why",
		"GET " + job + "/results", "GET " + job + "/callback", "POST " + job + "/callback"} {
		method, path, _ := strings.Cut(what, " ")
		list = append(list, request{method: method, path: path})
	}
	for _, method := range []string{"POST", "GET", "PATCH", "DELETE"} {
		r := request{method: method, path: "/v1/uploads/none", header: map[string]string{"Tus-Resumable": "1.0.0",
			"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}}
		if method == "POST" {
			r.path = "/v1/uploads"
		}
		list = append(list, r)
	}
	return list
}

// withoutKey sends requests without a key, for an unknown job, and from a page that is not the dashboard's.
func (c *coverage) withoutKey() {
	for _, r := range c.keyed("/v1/verify/bulk/none") {
		c.expect(401, c.w.do(r))
		if strings.Contains(r.path, "none") {
			r.key = c.key
			if strings.HasSuffix(r.path, "/recheck") {
				r.header, r.body = map[string]string{"Content-Type": "application/json"},
					strings.NewReader(`{"status":["VALID"]}`)
			}
			c.expect(404, c.w.do(r))
		}
		if r.method != "GET" {
			r.key, r.header = "", map[string]string{"Cookie": c.browser.cookie, "Sec-Fetch-Site": "cross-site"}
			c.expect(403, c.w.do(r))
		}
	}
}

// unknownParameters sends each request with a parameter that it does not have.
func (c *coverage) unknownParameters() {
	for _, r := range c.keyed("/v1/verify/bulk/none") {
		r.path, r.key = r.path+"?unheard_of=1", c.key
		c.expect(422, c.w.do(r))
	}
	for _, path := range []string{"/v1/reasons", "/v1/callback-origins", "/v1/receipt-keys", "/docs", "/openapi.json",
		"/healthz", "/readyz",
		"/widget.js"} {
		c.expect(422, c.w.get(path+"?unheard_of=1", ""))
	}
	for _, path := range []string{"/verify/public", "/v1/verify/public", "/v1/uploads"} {
		c.expect(422, c.w.do(request{method: "OPTIONS", path: path + "?unheard_of=1"}))
	}
}

// draining sends each request while the server drains.
func (c *coverage) draining() {
	c.w.server.Drain()
	for _, r := range c.keyed(c.job) {
		r.key = c.key
		c.expect(503, c.w.do(r))
	}
	for _, path := range []string{"/docs", "/openapi.json", "/readyz", "/widget.js", "/v1/reasons",
		"/v1/callback-origins", "/v1/receipt-keys"} {
		c.expect(503, c.w.get(path, ""))
	}
	for _, path := range []string{"/verify/public", "/v1/verify/public"} {
		c.expect(503, c.post(path, ""))
		c.expect(503, c.w.do(request{method: "OPTIONS", path: path}))
	}
	c.expect(503, c.w.do(request{method: "OPTIONS", path: "/v1/uploads"}))
	c.expect(200, c.w.get("/healthz", ""))
}
