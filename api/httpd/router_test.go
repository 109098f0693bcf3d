package httpd

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sampleRoutes have parameters at the end and in the middle, and paths that begin with others.
func sampleRoutes() []Route {
	var routes []Route
	for _, r := range []string{"GET /", "GET /app", "GET /app/", "GET /app/{page}", "GET /app/{page}/{item}",
		"GET /v1/jobs", "POST /v1/jobs", "GET /v1/jobs/{job}",
		"DELETE /v1/jobs/{job}", "POST /v1/jobs/{job}/pause", "GET /v1/jobs/{job}/results",
		"POST /v1/admin/users/{user}/disable"} {
		method, path, _ := strings.Cut(r, " ")
		routes = append(routes, Route{Method: method, Path: path})
	}
	return routes
}

func FuzzPath(f *testing.F) {
	f.Add("GET", "/v1/jobs/x/results")
	f.Add("POST", "/v1/admin/users/%2e%2e/disable")
	m, err := newMetrics(nil)
	require.NoError(f, err)
	table := newRouter(sampleRoutes(), m)
	f.Fuzz(func(t *testing.T, method, path string) {
		r, param, err := table.find([]byte(method), []byte(path))
		if err != nil {
			return
		}
		require.Equal(t, len(r.segments)-1, strings.Count(path, "/"), "%q is %s", path, r.Path)
		if !strings.Contains(r.Path, "{") {
			require.Equal(t, r.Path, path)
			require.Empty(t, param)
		}
	})
}
