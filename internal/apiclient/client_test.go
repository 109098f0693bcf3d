package apiclient

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve answers each request with a function of its method and path, and requires the key.
func serve(t *testing.T, answers map[string]http.HandlerFunc) *Client {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.Method+" "+r.URL.Path]
		if r.Header.Get("Authorization") != "Bearer secret" || answer == nil {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return &Client{Base: server.URL, Key: "secret", HTTP: server.Client()}
}

func TestListIsUploadedAndItsResultDownloaded(t *testing.T) {
	dir := t.TempDir()
	list, result := filepath.Join(dir, "list.csv"), filepath.Join(dir, "result.csv")
	require.NoError(t, os.WriteFile(list, []byte("email\nann@example.com\n"), 0o600))
	c := serve(t, map[string]http.HandlerFunc{
		"POST /v1/verify/bulk": func(w http.ResponseWriter, r *http.Request) {
			f, header, err := r.FormFile("file")
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			text, _ := io.ReadAll(f)
			if header.Filename != "list.csv" || string(text) != "email\nann@example.com\n" {
				http.Error(w, string(text), http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, `{"job_id":"j1","status":"running","total_rows":1}`)
		},
		"GET /v1/verify/bulk/j1": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"job_id":"j1","status":"completed","processed":1,"counts":{"VALID":1}}`)
		},
		"GET /v1/verify/bulk/j1/results": func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = io.WriteString(w, "the result")
		},
	})
	job, err := c.Upload(t.Context(), list)
	require.NoError(t, err)
	require.Equal(t, Job{ID: "j1", Status: "running", TotalRows: 1}, job)
	job, err = c.Job(t.Context(), job.ID)
	require.NoError(t, err)
	require.Equal(t, Job{ID: "j1", Status: "completed", Processed: 1, Counts: map[string]int64{"VALID": 1}}, job)
	require.NoError(t, c.Download(t.Context(), job.ID, result))
	text, err := os.ReadFile(result)
	require.NoError(t, err)
	require.Equal(t, "the result", string(text))

	other := filepath.Join(dir, "other.csv")
	require.ErrorContains(t, c.Download(t.Context(), "j2", other),
		"GET /v1/verify/bulk/j2/results with 418 I'm a teapot")
	require.NoFileExists(t, other)
}

// TestErrorsSayWhatDoesNotAnswer: the error names what does not answer, or is not what it should be, and says what to
// do.
func TestErrorsSayWhatDoesNotAnswer(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter,
		*http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer silent.Close()
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<h1>Service Unavailable</h1>", http.StatusServiceUnavailable)
	}))
	defer failing.Close()
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	const advice = "name the admin listener of a coordinator as --admin HOST:PORT"
	for base, want := range map[string]string{
		"http://127.0.0.1:1": "http://127.0.0.1:1 does not answer (connect: connection refused): start it if it does not run, else " + advice,
		"http://" + at(silent): "http://" + at(silent) + " does not answer (EOF): start it if it does not run, else " +
			advice,
		"https://" + at(page): "https://" + at(page) + " speaks HTTP without TLS: begin the URL with http://, or " +
			advice,
		"http://" + at(page):   "http://" + at(page) + " answers GET /debug/route with 404 Not Found: " + advice,
		"http://" + at(secure): "http://" + at(secure) + " answers GET /debug/route with 400 Bad Request: " + advice,
		"http://" + at(failing): "http://" + at(failing) + " answers GET /debug/route with 503 Service Unavailable: " +
			"the server or a proxy before it failed: see its log, then try again",
		"https://" + at(secure): "https://" + at(secure) +
			": tls: failed to verify certificate: x509: certificate signed by unknown authority",
	} {
		c := ForAdminListener("", "a coordinator")
		c.Base = base
		_, err := c.Call(t.Context(), http.MethodGet, "/debug/route?of=example.org", "", nil)
		require.EqualError(t, err, want)
	}
}

func TestRefusalHasTheServersDetail(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{"GET /v1/x": func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"detail":"it is there already"}`)
	}})
	_, err := c.Call(t.Context(), http.MethodGet, "/v1/x", "", nil)
	require.EqualError(t, err, "it is there already")
}

// TestJSONIsSentAndAnswered: a request without a body has no type, and a refusal is the server's detail.
func TestJSONIsSentAndAnswered(t *testing.T) {
	c := serve(t, map[string]http.HandlerFunc{
		"POST /v1/x": func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, r.Header.Get("Content-Type")+" "+string(text))
		},
		"GET /v1/x": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"detail":"type `+r.Header.Get("Content-Type")+`"}`)
		},
		"GET /v1/long": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, maxAnswer+1))
		},
	})
	got, err := c.CallJSON(t.Context(), http.MethodPost, "/v1/x", map[string]string{"a": "b"})
	require.NoError(t, err)
	require.Equal(t, `application/json {"a":"b"}`, string(got))
	_, err = c.CallJSON(t.Context(), http.MethodGet, "/v1/x", nil)
	require.EqualError(t, err, "type ")
	_, err = c.CallJSON(t.Context(), http.MethodGet, "/v1/long", nil)
	require.ErrorContains(t, err, "longer than 16 MiB")
}
