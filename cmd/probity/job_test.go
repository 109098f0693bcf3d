package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// jobServer answers requests about one job, and keeps the last one.
func jobServer(t *testing.T, status int, answer string) (url string, last *http.Request, body *bytes.Buffer) {
	last, body = new(http.Request), new(bytes.Buffer)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = *r.Clone(t.Context())
		_, _ = io.Copy(body, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	t.Setenv("PROBITY_KEY", "prb_live_key")
	return server.URL, last, body
}

func TestJobWhyShowsReceiversAndWaits(t *testing.T) {
	url, last, _ := jobServer(t, 200, `{"job_id":"j1","status":"running","at":"2026-03-01T12:00:00Z","open_rows":47,"unreached_nodes":["n2"],"receivers":[
		{"receiver":"Outlook.com","rows":47,"asking":7,"queued":0,"opens_at":"2026-03-01T12:00:00Z","done_by":"2026-03-01T14:00:00Z","waits":[
			{"for":"budget","rows":40,"opens_at":"2026-03-01T13:00:00Z","limit":"refusals_per_hour","source":"192.0.2.1","node":"n1","reply":null,"rule":null}]}]}`)
	var out, errs bytes.Buffer
	con := &console.IO{Out: &out, Err: &errs}
	require.NoError(t, (&jobWhyCmd{jobFlags{ID: "j1", Server: url}}).Run(t.Context(), con))
	require.Equal(t, "/v1/verify/bulk/j1/why", last.URL.Path)
	require.Equal(t, "Bearer prb_live_key", last.Header.Get("Authorization"))
	for _, want := range []string{"job j1 is running; 47 open rows", "node n2 does not answer",
		"Outlook.com  47    7       now",
		"budget refusals_per_hour of source 192.0.2.1 at node n1"} {
		require.Contains(t, out.String(), want)
	}
	out.Reset()
	require.NoError(t, (&jobWhyCmd{jobFlags{ID: "j1", Server: url, JSON: true}}).Run(t.Context(), con))
	require.Contains(t, out.String(), `"open_rows":47`)
}

func TestJobStartAndRecheckPrintTheJob(t *testing.T) {
	url, last, body := jobServer(t, 202, `{"job_id":"j2","status":"queued","unique_addresses":3}`)
	var out bytes.Buffer
	con := &console.IO{Out: &out, Err: io.Discard}
	require.NoError(t, (&jobStartCmd{jobFlags{ID: "j2", Server: url}}).Run(t.Context(), con))
	require.Equal(t, "/v1/verify/bulk/j2/start", last.URL.Path)
	require.Equal(t, "j2\n", out.String())
	require.ErrorIs(t, (&jobRecheckCmd{jobFlags: jobFlags{ID: "j1", Server: url}}).Run(t.Context(), con),
		console.ErrUsage)
	require.NoError(t, (&jobRecheckCmd{jobFlags{ID: "j1", Server: url}, []string{"UNKNOWN"},
		[]string{"timeout"}}).Run(t.Context(), con))
	require.Equal(t, "/v1/verify/bulk/j1/recheck", last.URL.Path)
	require.JSONEq(t, `{"status":["UNKNOWN"],"reason":["timeout"]}`, body.String())
}

func TestJobCommandsNeedAKeyAndSayWhatTheServerSays(t *testing.T) {
	url, _, _ := jobServer(t, 404, `{"detail":"There is no such job in this account: check the job_id."}`)
	con := &console.IO{Out: io.Discard, Err: io.Discard}
	why := &jobWhyCmd{jobFlags{ID: "j1", Server: url}}
	require.ErrorContains(t, why.Run(t.Context(), con), "There is no such job in this account")
	t.Setenv("PROBITY_KEY", "")
	t.Setenv("PROBITY_ADMIN_KEY", "")
	err := why.Run(t.Context(), con)
	require.ErrorIs(t, err, console.ErrUsage)
	require.ErrorContains(t, err, "PROBITY_KEY")
}
