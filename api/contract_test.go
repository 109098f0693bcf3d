package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contract checks answers against openapi.yaml. Each answer that a test gets from a testServer is checked.
type contract struct {
	router routers.Router
	mu     sync.Mutex
	seen   map[string]bool // guarded by mu: "operation 200"
}

func newContract(t testing.TB) *contract {
	t.Helper()
	router, err := describedPaths()
	require.NoError(t, err)
	return &contract{router: router, seen: make(map[string]bool)}
}

// describedPaths reads the description once for all test servers, which do not change it.
var describedPaths = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("openapi.yaml")
	if err != nil {
		return nil, err
	}
	return legacy.NewRouter(doc)
})

// wasSeen reports whether an operation was answered with a status.
func (c *contract) wasSeen(operation, status string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[operation+" "+status]
}

// check checks one answer. A path that is not in the description must be a 404, and another method of a path a 405.
func (c *contract) check(t testing.TB, req *http.Request, r reply) {
	t.Helper()
	require.NotEmpty(t, r.header.Get("X-Request-Id"))
	asked := req.Clone(context.Background())
	if asked.Method == http.MethodHead {
		asked.Method = http.MethodGet
	}
	asked.URL.Scheme, asked.URL.Host, asked.Host = "", "", ""
	route, params, err := c.router.FindRoute(asked)
	if err != nil || r.status == 405 {
		require.Contains(t, []int{404, 405}, r.status, "%s %s: %v", req.Method, req.URL.Path, err)
		requireAdvice(t, r)
		return
	}
	c.mu.Lock()
	c.seen[fmt.Sprint(route.Operation.OperationID, " ", r.status)] = true
	c.mu.Unlock()
	isJSON := strings.HasPrefix(r.header.Get("Content-Type"), "application/json")
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 r.status, Header: r.header, Body: io.NopCloser(bytes.NewReader(r.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: !isJSON ||
			req.Method == http.MethodHead},
	})
	require.NoError(t, err, "%s %s: %d %s", req.Method, req.URL.Path, r.status, r.body)
	if r.status >= 400 && req.Method != http.MethodHead {
		requireAdvice(t, r)
	}
}

// adviceVerbs matches a detail that says what to do, by an imperative or by what must be.
var adviceVerbs = regexp.MustCompile(`(?i)\b(send|use|add|wait|ask|try|check|look|upload|cancel|change|choose|close|double|shorten|quote|split|name|give|put|pack|let|sign in|` +
	`say|repeat|remove|end|begin|encode|escape|must|allows it|only|found|did you mean|at most|needs?|restart|report|expects?|is for|reads?|reload|may be)\b`)

// requireAdvice requires that an error's body is {"detail"} alone, and that the detail says what to do.
func requireAdvice(t testing.TB, r reply) {
	t.Helper()
	assert.Regexp(t, adviceVerbs, r.detail(t)) // and on: there may be more
}

// TestEveryOperationIsServed walks the description: each operation is there, and each of its paths refuses other
// methods.
func TestEveryOperationIsServed(t *testing.T) {
	w := newTestServer(t, nil)
	doc := loadDescription(t)
	for path, item := range doc.Paths.Map() {
		sent := strings.NewReplacer("{job_id}", "none", "{user}", "none", "{key_id}", "none").Replace(path)
		for method := range item.Operations() {
			r := w.do(request{method: method, path: sent, key: w.adminKey, body: strings.NewReader("")})
			require.NotEqual(t, 405, r.status, "%s %s", method, path)
			if !strings.Contains(path, "{") {
				require.NotEqual(t, 404, r.status, "%s %s", method, path)
			}
		}
		r := w.do(request{method: "TRACE", path: sent, key: w.adminKey})
		require.Equal(t, 405, r.status)
		require.NotEmpty(t, r.header.Get("Allow"))
	}
	for _, route := range w.server.routeTable {
		item := doc.Paths.Find(route.Path)
		require.NotNil(t, item, route.Path)
		require.NotNil(t, item.GetOperation(route.Method), "%s %s", route.Method, route.Path)
	}
}

// TestExamplesAreTrue sends each example of a request in the description: the server accepts it.
func TestExamplesAreTrue(t *testing.T) {
	w := newTestServer(t, nil)
	for _, path := range []string{"/v1/verify/single", "/v1/verify/batch", "/v1/verify/public"} {
		op := loadDescription(t).Paths.Find(path).Post
		for name, example := range op.RequestBody.Value.Content["application/json"].Examples {
			b, err := json.Marshal(example.Value.Value)
			require.NoError(t, err)
			r := w.post(path, w.key, string(b))
			require.Equal(t, 200, r.status, "%s %s: %s", path, name, r.body)
		}
	}
}

// TestSchemasAreStrict shows that the contract fails for an answer with an extra key or a missing one.
func TestSchemasAreStrict(t *testing.T) {
	schema := loadDescription(t).Components.Schemas["Error"].Value
	require.NoError(t, schema.VisitJSON(map[string]any{"detail": "x"}))
	require.Error(t, schema.VisitJSON(map[string]any{"detail": "x", "code": "y"}))
	require.Error(t, schema.VisitJSON(map[string]any{}))
}
