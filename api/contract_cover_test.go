package api

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/store"
)

// unmet are the described answers that no request of the tests below brings about, and why.
var unmet = map[string]string{
	"400": "a header that cannot be read belongs to no operation; TestMalformedRequests meets it",
	"500": "the disk would have to fail",
}

// TestEveryDescribedAnswerIsMet brings about each answer that the description has of the interface of customers, and so
// holds each to its schema: what is described and never happens is no description.
func TestEveryDescribedAnswerIsMet(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxUpload, c.CORSOrigins = 100_000, []string{"https://shop.example"} })
	c := &cover{w: w, key: w.key, browser: w.signIn("visitor@probity.test", store.Customer)}
	c.pages()
	c.singles()
	c.uploads()
	c.jobs()
	c.public()
	c.without()
	c.outOfScope()
	c.draining()
	hidden := newWorld(t, func(c *Config) { c.HideDocs = true })
	hidden.contract = w.contract
	hidden.get("/docs", "")
	hidden.get("/openapi.json", "")
	for path, item := range loadDescription(t).Paths.Map() {
		if !isPublic(path) {
			continue
		}
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if met := w.contract.met(op.OperationID, status); !met && unmet[status] == "" {
					t.Errorf("%s %s is never answered with %s", method, path, status)
				}
			}
		}
	}
}

// cover brings answers about.
type cover struct {
	w       *world
	key     string
	browser *browser
	job     string // path of a finished job with a callback
}

func (c *cover) is(status int, r reply) reply {
	c.w.t.Helper()
	require.Equal(c.w.t, status, r.status, "%s", r.body)
	return r
}

func (c *cover) post(path, key string) reply {
	return c.w.do(request{method: "POST", path: path, key: key})
}

func (c *cover) pages() {
	for _, path := range []string{"/docs", "/openapi.json", "/healthz", "/readyz", "/widget.js", "/v1/reasons", "/v1/callback-origins"} {
		c.is(200, c.w.get(path, ""))
	}
	c.is(200, c.w.get("/v1/credits", c.key))
	for _, path := range []string{"/docs", "/openapi.json", "/widget.js"} {
		tag := c.w.get(path, "").header.Get("ETag")
		c.is(304, c.w.do(request{method: "GET", path: path, header: map[string]string{"If-None-Match": tag}}))
	}
}

// outOfScope uses keys for what they do not open.
func (c *cover) outOfScope() {
	none := c.w.keyWith(c.w.admin.ID, store.NewKey{Scopes: store.ScopeAdmin})
	for _, r := range c.w.server.table {
		if r.access == keyOnly || r.access == keyOrSig {
			c.is(403, c.w.do(request{method: r.method, path: strings.Replace(r.name, "{job_id}", "x", 1), key: none}))
		}
	}
}

func (c *cover) singles() {
	w := c.w
	ok := `{"email":"ann@shop.test"}`
	c.is(200, w.single(ok))
	c.is(400, w.single(`{`))
	c.is(413, w.single(strings.Repeat(" ", maxJSON+1)))
	c.is(422, w.single(`{}`))
	c.is(415, w.do(request{method: "POST", path: "/v1/verify/single", key: c.key, body: strings.NewReader(ok)}))
	_, poor := w.customer("poor@probity.test", 0)
	c.is(402, w.post("/v1/verify/single", poor, ok))
	c.is(402, w.upload(poor, nil, part{"file", "l.csv", "email\na@shop.test\n"}))
	c.is(429, w.post("/v1/verify/single", w.testKey, `{"email":"http_429@example.com"}`))
	c.is(500, w.post("/v1/verify/single", w.testKey, `{"email":"http_500@example.com"}`))
	c.inFlight("/v1/verify/single", (&singleRequest{email: "ann@shop.test", checkSMTP: true, timeout: defaultTimeout * time.Second,
		maxAge: coordinator.DefaultMaxAge}).digest(), func(h map[string]string) reply {
		h["Content-Type"] = "application/json"
		return w.do(request{method: "POST", path: "/v1/verify/single", key: c.key, body: strings.NewReader(ok), header: h})
	})
}

// inFlight sends a request while another with its Idempotency-Key is under way.
func (c *cover) inFlight(endpoint string, digest store.KeyHash, send func(map[string]string) reply) {
	r := store.Request{Account: c.w.user.ID, Endpoint: endpoint, Key: "k", Digest: digest}
	_, _, err := c.w.store.BeginRequest(r, time.Now())
	require.NoError(c.w.t, err)
	c.is(409, send(map[string]string{"Idempotency-Key": "k"}))
	c.w.store.EndRequest(r)
}

func (c *cover) uploads() {
	w := c.w
	file := part{"file", "l.csv", "email\na@shop.test\n"}
	whole, kind := formOf(file)
	send := func(body string, h map[string]string) reply {
		header := map[string]string{"Content-Type": kind}
		for k, v := range h {
			header[k] = v
		}
		return w.do(request{method: "POST", path: "/v1/verify/bulk", key: c.key, header: header, body: strings.NewReader(body)})
	}
	c.is(400, send(whole[:len(whole)-10], nil))
	c.is(413, send(whole+strings.Repeat(" ", 100_000), nil))
	c.is(415, w.post("/v1/verify/bulk", c.key, `{}`))
	c.is(422, w.upload(c.key, nil, part{"name", "", "x"}))
	sum := sha256.Sum256([]byte(file.content))
	digest := sha256.Sum256(fmt.Appendf(nil, "%x %q %+v", sum, "l.csv", newForm(nil, kind).bulkOptions))
	c.inFlight("/v1/verify/bulk", digest, func(h map[string]string) reply { return send(whole, h) })
	c.is(202, w.upload(c.key, nil, file, part{"callback_url", "", "http://127.0.0.1:9/"}))
	u, few := w.customer("few@probity.test", 10)
	require.NoError(w.t, w.store.SetLimits(u.ID, store.Limits{BulkPerHour: 1}, "test", time.Now()))
	w.upload(few, nil, file)
	c.is(429, w.upload(few, nil, file))
}

func (c *cover) jobs() {
	w := c.w
	c.is(200, w.get("/v1/verify/bulk", c.key))
	c.is(422, w.get("/v1/verify/bulk?limit=0", c.key))
	release := w.prober.holdAnswers()
	defer release()
	path := c.is(202, w.upload(c.key, nil, part{"file", "l.csv", "email\na@shop.test\n"}, part{"callback_url", "", "http://127.0.0.1:9/"})).header.Get("Location")
	c.is(200, w.get(path, c.key))
	c.is(422, w.get(path+"?wait=x", c.key))
	c.is(200, w.get(path+"/plan?sources=3&refused=50", c.key))
	c.is(422, w.get(path+"/plan?sources=0", c.key))
	c.is(409, w.get(path+"/results", c.key))
	c.is(409, c.post(path+"/callback", c.key))
	c.is(409, w.do(request{method: "DELETE", path: path, key: c.key}))
	c.is(200, c.post(path+"/pause", c.key))
	c.is(200, c.post(path+"/resume", c.key))
	c.is(200, c.post(path+"/cancel", c.key))
	release()
	w.wait(c.key, path[len(bulkPath)+1:])
	for _, act := range []string{"/pause", "/resume"} {
		c.is(409, c.post(path+act, c.key))
	}
	c.is(409, w.get(path+"/plan", c.key))
	finished := w.finished(c.key, part{"file", "l.csv", "email\na@shop.test\n"}, part{"callback_url", "", "http://127.0.0.1:9/"})
	c.job = "/v1/verify/bulk/" + finished["job_id"].(string)
	c.is(409, c.post(c.job+"/cancel", c.key))
	c.is(202, c.post(c.job+"/callback", c.key))
	c.is(200, w.get(c.job+"/callback", c.key))
	c.results(c.job + "/results")
	c.is(204, w.do(request{method: "DELETE", path: path, key: c.key}))
}

func (c *cover) results(path string) {
	w := c.w
	tag := c.is(200, w.get(path, c.key)).header.Get("ETag")
	c.is(304, w.do(request{method: "GET", path: path, key: c.key, header: map[string]string{"If-None-Match": tag}}))
	c.is(422, w.get(path+"?format=x", c.key))
	c.is(206, w.do(request{method: "GET", path: path + "?compress=zstd", key: c.key, header: map[string]string{"Range": "bytes=0-1"}}))
	c.is(416, w.do(request{method: "GET", path: path + "?compress=zstd", key: c.key, header: map[string]string{"Range": "bytes=99999-"}}))
	c.is(403, w.get(path+"?expires=1&signature=x", ""))
	gone := w.finished(c.key, part{"file", "l.csv", "email\na@shop.test\n"})["job_id"].(string)
	_, err := w.store.UpdateJob(gone, func(j *store.Job) error { j.State = store.JobExpired; return nil })
	require.NoError(w.t, err)
	c.is(410, w.get("/v1/verify/bulk/"+gone+"/results", c.key))
}

func (c *cover) public() {
	w := c.w
	ok := `{"email":"ann@shop.test"}`
	for i, path := range []string{"/verify/public", "/v1/verify/public"} {
		w.ahead.Store(int64(i) * int64(24*time.Hour+time.Second))
		c.is(200, w.post(path, "", ok))
		c.is(400, w.post(path, "", `{`))
		c.is(413, w.post(path, "", strings.Repeat(" ", maxJSON+1)))
		c.is(415, w.do(request{method: "POST", path: path, body: strings.NewReader(ok)}))
		c.is(422, w.post(path, "", `{}`))
		for origin, status := range map[string]int{"https://shop.example": 204, "https://evil.example": 403} {
			c.is(status, w.do(request{method: "OPTIONS", path: path, header: map[string]string{"Origin": origin}}))
		}
		c.is(403, w.do(request{method: "POST", path: path, body: strings.NewReader(ok), header: map[string]string{"Origin": "https://evil.example", "Content-Type": "application/json"}}))
		w.prober.fail.Store(true)
		c.is(500, w.post(path, "", ok))
		w.prober.fail.Store(false)
		c.is(200, w.post(path, "", ok))
		c.is(429, w.post(path, "", ok))
	}
	w.ahead.Store(0)
}

// keyed are the operations that want a key.
func (c *cover) keyed(job string) (list []request) {
	for _, what := range []string{"POST /v1/verify/single", "POST /v1/verify/bulk", "GET /v1/verify/bulk", "GET /v1/credits", "GET " + job, "DELETE " + job,
		"POST " + job + "/pause", "POST " + job + "/resume", "POST " + job + "/cancel", "GET " + job + "/plan", "GET " + job + "/results", "GET " + job + "/callback", "POST " + job + "/callback"} {
		method, path, _ := strings.Cut(what, " ")
		list = append(list, request{method: method, path: path})
	}
	return list
}

// without asks without a key, for a job that is nobody's, and from a page that is not the dashboard's.
func (c *cover) without() {
	for _, r := range c.keyed("/v1/verify/bulk/none") {
		c.is(401, c.w.do(r))
		if strings.Contains(r.path, "none") {
			r.key = c.key
			c.is(404, c.w.do(r))
		}
		if r.method != "GET" {
			r.key, r.header = "", map[string]string{"Cookie": c.browser.cookie, "Sec-Fetch-Site": "cross-site"}
			c.is(403, c.w.do(r))
		}
	}
}

// draining asks for everything when the server is about to end.
func (c *cover) draining() {
	c.w.server.Drain()
	for _, r := range c.keyed(c.job) {
		r.key = c.key
		c.is(503, c.w.do(r))
	}
	for _, path := range []string{"/docs", "/openapi.json", "/readyz", "/widget.js", "/v1/reasons", "/v1/callback-origins"} {
		c.is(503, c.w.get(path, ""))
	}
	for _, path := range []string{"/verify/public", "/v1/verify/public"} {
		c.is(503, c.post(path, ""))
		c.is(503, c.w.do(request{method: "OPTIONS", path: path}))
	}
	c.is(200, c.w.get("/healthz", ""))
}
