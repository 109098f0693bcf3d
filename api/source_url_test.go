package api

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestListIsFetchedFromItsURL: it becomes the same job as the file would, and what is wrong with the URL, its server or
// the file is said and costs nothing.
func TestListIsFetchedFromItsURL(t *testing.T) {
	w := newTestServer(t, nil)
	content := smallList
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/lists/small.csv" {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("ETag", `"1"`)
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader([]byte(content)))
	}))
	defer server.Close()
	w.roots.AddCert(server.Certificate())
	url := server.URL + "/lists/small.csv?signature=hunter2"
	source := part{"source_url", "", url}
	key := map[string]string{"Idempotency-Key": "k1"}
	name := part{"name", "", "spring"}
	for _, parts := range [][]part{{source, name}, {name, source}} {
		r := w.upload(w.key, key, parts...)
		require.Equal(t, 202, r.status, "%s", r.body)
		job := r.json(t)
		for k, v := range map[string]any{"name": "spring", "filename": "small.csv", "total_rows": 5.0,
			"unique_addresses": 3.0, "blank_rows": 1.0} {
			require.Equal(t, v, job[k], k)
		}
		require.Equal(t, "completed", w.waitForJob(w.key, job["job_id"].(string))["status"])
	}
	require.Len(t, w.get("/v1/verify/bulk", w.key).json(t)["jobs"], 1, "the second was a repetition")
	require.EqualValues(t, initialCredits-2, w.credits().Balance)
	require.NotContains(t, w.log.String(), "hunter2")

	private := strings.Replace(url, "127.0.0.1", "10.0.0.1", 1)
	for _, c := range []struct {
		parts  []part
		status int
		want   string
	}{
		{[]part{name}, 422, "file is missing"},
		{[]part{{"source_url", "", " "}}, 422, "source_url is empty"},
		{[]part{{"source_url", "", "http://127.0.0.1/l.csv"}}, 422, "source_url: it must begin with https://"},
		{[]part{{"source_url", "", private}}, 422, "source_url: 10.0.0.1 is a private"},
		{[]part{{"source_url", "", server.URL + "/none"}}, 422, "source_url: its server answers 404 Not Found"},
		{[]part{source, {"file", "l.csv", smallList}}, 422, "send one of them"},
		{[]part{{"file", "l.csv", smallList}, source}, 422, "send one of them"},
		{[]part{source, {"email_column", "", "9"}}, 422, "file: line 1: there is no email_column=9"},
	} {
		r := w.upload(w.key, nil, c.parts...)
		require.Equal(t, c.status, r.status, c.want)
		require.Contains(t, r.detail(t), c.want)
		require.NotContains(t, r.detail(t), "hunter2")
	}
	content += "6,new@shop.test\n"
	require.Equal(t, 422, w.upload(w.key, key, source, name).status, "another file under the same key")
	require.EqualValues(t, initialCredits-2, w.credits().Balance)
	require.Equal(t, 1, w.jobFolderCount())
	w.requireNoScratch()
}
