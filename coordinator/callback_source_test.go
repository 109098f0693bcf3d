package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/callback"
	"probity/coordinator/ingest"
	"probity/coordinator/jobdir"
	"probity/coordinator/outward"
	"probity/coordinator/results"
	"probity/internal/wholefile"
	"probity/store"
)

// A job from its upload to its callback, over real sockets: refused once, then taken.
func TestCallbackOfAJobOverSockets(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, cfg *Config) {
		cfg.OnFinish = func(j *store.Job) []store.Part { return []store.Part{callback.Schedule(j)} }
	})
	var tries atomic.Int64
	got := make(chan []byte, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if tries.Add(1) == 1 || err != nil {
			rw.WriteHeader(503)
			return
		}
		got <- body
	}))
	defer srv.Close()
	c, ended, stop := startSender(t, w)
	require.NoError(t, c.CheckURL(t.Context(), srv.URL))
	w.run()
	in := testCSV(3000, 7)
	j, err := w.c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(in),
		Options: ingest.Options{CallbackURL: srv.URL}})
	require.NoError(t, err)
	j = w.finish(t, j.ID)
	require.Eventually(t, func() bool {
		cb, err := w.store.Callback(j.ID)
		return err == nil && cb.Attempts == 1
	}, 10*time.Second, time.Millisecond)
	kept := w.fs.PathJoin(w.c.files.Path(j.ID), jobdir.FileCallback)
	_, err = w.fs.Stat(kept)
	require.NoError(t, err, "the rows are kept for the next attempt")
	_, err = c.Resend(j.ID)
	require.NoError(t, err)
	var e struct {
		Results []map[string]any `json:"results"`
	}
	require.NoError(t, json.Unmarshal(<-got, &e))
	require.Len(t, e.Results, 3000)
	lines := strings.Split(strings.TrimSpace(w.results(t, j.ID,
		results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.None}, NoInput: true})), "\n")
	for i, row := range e.Results {
		require.Len(t, row, 16, "row, and the 15 keys")
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[i]), &want))
		require.Equal(t, want, row)
	}
	require.Eventually(t, func() bool { _, err := w.fs.Stat(kept); return err != nil }, 10*time.Second,
		time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, w.close(t))
}

// startSender runs a callback.Sender for a coordinator; it may reach this machine.
func startSender(t *testing.T, w *testEnv) (c *callback.Sender, ended chan error, stop func()) {
	c, err := callback.New(callback.Config{
		Store: w.store, Results: w.c, PublicURL: "http://127.0.0.1:8080",
		Record: func(j *store.Job, _ store.Callback) ([]byte, error) {
			return fmt.Appendf(nil, `{"job_id":%q}`, j.ID), nil
		},
		Dialer: outward.New(outward.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Dial: func(ctx context.Context, _ netip.Addr, network, address string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			},
			Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, nil }}),
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return c, ended, stop
}

// The rows are rendered once and are the same each time. An incomplete file after a crash is not used.
func TestCallbackRowsAreRenderedOnce(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.finish(t, w.accept(t, testCSV(500, 3)).ID)
	want := w.results(t, j.ID, results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.None},
		NoInput: true})
	path := w.fs.PathJoin(w.c.files.Path(j.ID), jobdir.FileCallback)
	half, err := w.fs.Create(path+wholefile.New, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = half.Write([]byte("half"))
	require.NoError(t, err)
	require.NoError(t, half.Close())
	for range 2 {
		var b bytes.Buffer
		require.NoError(t, w.c.WriteResults(t.Context(), j.ID, &b))
		require.Equal(t, want, b.String())
	}
	require.NoError(t, w.c.DropResults(j.ID))
	require.NoError(t, w.c.DropResults(j.ID), "nothing to drop is fine")
	_, err = w.fs.Stat(path)
	require.Error(t, err)

	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, w.c.WriteResults(stopped, j.ID, io.Discard), context.Canceled)
	_, err = w.fs.Stat(path + wholefile.New)
	require.Error(t, err, "a broken rendering leaves nothing")
	require.NoError(t, w.c.Expire(j.ID))
	require.Error(t, w.c.WriteResults(t.Context(), j.ID, io.Discard))
	require.NoError(t, w.close(t))
}
