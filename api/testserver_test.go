package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"probity/api/reasons"
	"probity/api/record"
	"probity/api/tus"
	"probity/coordinator"
	"probity/coordinator/bucket"
	"probity/coordinator/callback"
	"probity/coordinator/erase"
	"probity/coordinator/fetch"
	"probity/coordinator/outward"
	"probity/coordinator/singles"
	"probity/engine"
	"probity/store"
	"probity/store/deliveries"
	book "probity/store/feedback"
	"probity/store/history"
)

// testServer is a running server on a loopback address. It has the real store and coordinator; only DNS and the prober
// are fakes.
type testServer struct {
	t           testing.TB
	store       *store.Store
	coord       *coordinator.Coordinator
	book        *book.Book
	prober      *fakeProber
	nodes       fakeNodes
	server      *Server
	history     *history.History
	late        *singles.Late
	deliveries  *bucket.Sender // to a server that does not answer
	fs          vfs.FS
	registry    *prometheus.Registry
	log         *syncedBuffer
	level       slog.LevelVar // of log
	clockOffset atomic.Int64  // how far the clock of limits and ledgers is put forward
	contract    *contract
	addr        string
	base        string
	shutdown    context.CancelFunc // begins the end of serving
	ended       chan struct{}      // closed when serving has ended
	admin       store.User
	adminKey    string
	user        store.User
	key         string // of user, with initialCredits
	testKey     string
	roots       *x509.CertPool // of servers that lists are fetched from
}

// fakeNodes are two nodes with a cached verdict each, of which one can be away.
type fakeNodes struct {
	away atomic.Bool
	busy atomic.Pointer[chan struct{}] // they answer when it is closed; nil: at once
}

func (n *fakeNodes) Forget(ctx context.Context, _ string, done func(string) bool) (map[string]int, []string, error) {
	if busy := n.busy.Load(); busy != nil {
		select {
		case <-*busy:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	reached, away := map[string]int{}, []string(nil)
	for _, node := range []string{"p1", "p2"} {
		switch {
		case done(node):
		case node == "p2" && n.away.Load():
			away = append(away, node)
		default:
			reached[node] = 1
		}
	}
	return reached, away, nil
}

func (n *fakeNodes) Reachable(string) bool { return !n.away.Load() }

const initialCredits = 1000

// syncedBuffer is a log that tests read while it is written.
type syncedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// newTestServer starts a server as in production, except for what change changes.
func newTestServer(t testing.TB, change func(*Config)) *testServer {
	t.Helper()
	w := &testServer{t: t, fs: vfs.NewMem(), registry: prometheus.NewRegistry(), log: new(syncedBuffer),
		contract: newContract(t), roots: x509.NewCertPool()}
	w.level.Set(slog.LevelDebug)
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: &w.level}))
	cfg := Config{}
	if change != nil {
		change(&cfg)
	}
	table := engine.DefaultTable()
	w.prober = &fakeProber{table: table}
	var err error
	w.store, err = store.Open(w.fs, "state")
	require.NoError(t, err)
	w.book, err = book.Open(w.store)
	require.NoError(t, err)
	w.coord = coordinator.New(coordinator.Config{Store: w.store, FS: w.fs, Dir: "data", Resolver: fakeDNS{table},
		Prober: w.prober, Table: table, Tracer: cfg.Tracer,
		Lists: fakeLists{}, TestVerdict: reasons.Simulate, Log: log, Probability: w.book.Probability,
		OnFinish: func(j *store.Job) []store.Part {
			return []store.Part{store.SettleJob(j.Account, j.ID, j.Charged, j.FinishedAt), callback.Schedule(j),
				deliveries.JobEnded(j)}
		}, OnExpire: deliveries.JobExpired, OnDelete: deliveries.JobDeleted})
	w.history, err = history.Open(history.Config{FS: w.fs, Dir: "history", Log: log})
	require.NoError(t, err)
	outwards := outward.New(outward.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Dial: func(ctx context.Context, _ netip.Addr, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, nil }})
	callbacks, err := callback.New(callback.Config{Store: w.store, Results: w.coord,
		Record: func(j *store.Job, c store.Callback) ([]byte, error) {
			return record.ForCallback(w.store.DB, "http://probity.test", w.coord.ResultRetention(), j, c)
		},
		Single:    func(request string) (*callback.SingleEvent, error) { return singles.Event(w.store, request) },
		PublicURL: "http://probity.test", Dialer: outwards, Log: log, Tracer: cfg.Tracer})
	require.NoError(t, err)
	w.late, err = singles.Open(singles.Config{Store: w.store, Coordinator: w.coord, Notify: callbacks.Notify,
		History: w.history, Log: log})
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte("[default]\naws_access_key_id=a\naws_secret_access_key=b\n"), 0o600))
	own, err := bucket.ParseAllowed("Ann@Probity.test=s3://results/out")
	require.NoError(t, err)
	w.deliveries, err = bucket.New(bucket.Config{Store: w.store, Results: w.coord, Dialer: outwards,
		Allowed: []bucket.Allowed{own}, Endpoint: "https://127.0.0.1:1", Region: "here", CredentialsFile: key,
		Log: log})
	require.NoError(t, err)
	eraseCalls := func(ctx context.Context, folded string) error {
		_, err := w.history.Erase(ctx, folded)
		return errors.Join(err, w.late.Erase(folded))
	}
	uploads, err := tus.Open(tus.Config{FS: w.fs, Dir: "data/uploads"})
	require.NoError(t, err)
	w.server, err = New(cfg, Deps{Store: w.store, Feedback: w.book, Coordinator: w.coord, Callbacks: callbacks,
		FS: w.fs, Scratch: "data/scratch", Log: log, Deliveries: w.deliveries,
		Fetcher: fetch.New(fetch.Config{Dialer: outwards, RootCAs: w.roots}), Uploads: uploads,
		Metrics: w.registry, Now: func() time.Time { return time.Now().Add(time.Duration(w.clockOffset.Load())) },
		History: w.history, Late: w.late, Eraser: erase.New(erase.Config{Store: w.store, Jobs: w.coord.ForErasure(),
			Caches: &w.nodes, Calls: eraseCalls,
			Answers: func(folded string) (int, error) {
				return w.store.EraseAnswers(func(b []byte) bool { return record.IsAnswerAbout(b, folded) })
			}, Reports: w.book.Erase})})
	require.NoError(t, err)
	w.createAccounts()
	w.run(callbacks)
	return w
}

// allScopes are all scopes that the key of an admin can have.
const allScopes = store.ScopeVerify | store.ScopeJobs | store.ScopeAccount | store.ScopeAdmin

func (w *testServer) createAccounts() {
	ctx, now := context.Background(), time.Now()
	var err error
	w.admin, _, err = w.store.AddUser(ctx, store.NewUser{Email: "root@probity.test", Role: store.Admin, Credits: 1000},
		"test", now)
	require.NoError(w.t, err)
	w.adminKey, _, err = w.store.CreateKey(w.admin.ID, store.NewKey{Name: "admin", Scopes: allScopes}, "test", now)
	require.NoError(w.t, err)
	w.user, w.key = w.addCustomer("ann@probity.test", initialCredits)
	w.testKey, _, err = w.store.CreateKey(w.user.ID, store.NewKey{Name: "test", Test: true}, "test", now)
	require.NoError(w.t, err)
}

// addCustomer makes an account with wide limits and a live key.
func (w *testServer) addCustomer(email string, credits int64) (store.User, string) {
	u, _, err := w.store.AddUser(context.Background(), store.NewUser{Email: email, Credits: credits,
		Limits: store.Limits{SinglePerMinute: 100000, BulkPerHour: 100000}}, "test", time.Now())
	require.NoError(w.t, err)
	key, _, err := w.store.CreateKey(u.ID, store.NewKey{Name: "live"}, "test", time.Now())
	require.NoError(w.t, err)
	return u, key
}

// run starts coordinator, callbacks and server, and ends them with the test.
func (w *testServer) run(callbacks *callback.Sender) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.addr = ln.Addr().String()
	w.base = "http://" + w.addr
	ctx, stop := context.WithCancel(context.Background())
	serving, shutdown := context.WithCancel(context.Background())
	w.shutdown, w.ended = shutdown, make(chan struct{})
	var deps sync.WaitGroup
	deps.Go(func() {
		if err := w.coord.Run(ctx); err != nil {
			w.t.Errorf("coordinator: %v", err)
		}
	})
	deps.Go(func() {
		if err := callbacks.Run(ctx); err != nil {
			w.t.Errorf("callbacks: %v", err)
		}
	})
	deps.Go(func() {
		if err := w.late.Run(ctx); err != nil {
			w.t.Errorf("late single calls: %v", err)
		}
	})
	deps.Go(func() {
		if err := w.deliveries.Run(ctx); err != nil {
			w.t.Errorf("deliveries: %v", err)
		}
	})
	go func() {
		defer close(w.ended)
		if err := w.server.Serve(serving, ln, 10*time.Second); err != nil {
			w.t.Errorf("server: %v", err)
		}
	}()
	w.t.Cleanup(func() {
		shutdown()
		<-w.ended
		stop()
		deps.Wait()
		require.NoError(w.t, errors.Join(w.history.Close(), w.store.Close()))
	})
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
	closed bool // the server closes the connection after it
}

func (r reply) json(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(r.body, &m), "%s", r.body)
	return m
}

// detail is the text of an error, whose body must have nothing else.
func (r reply) detail(t testing.TB) string {
	t.Helper()
	m := r.json(t)
	require.Len(t, m, 1, "%s", r.body)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	require.NotEmpty(t, r.header.Get("X-Request-Id"))
	s, ok := m["detail"].(string)
	require.True(t, ok && s != "", "%s", r.body)
	return s
}

// request is what a test sends; key "" sends none.
type request struct {
	method, path, key string
	header            map[string]string
	body              io.Reader
}

// client has its own connections, so that only the server decides when one ends.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (w *testServer) do(r request) reply {
	w.t.Helper()
	req, err := http.NewRequest(r.method, w.base+r.path, r.body)
	require.NoError(w.t, err)
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	res, err := client.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	got := reply{res.StatusCode, res.Header, b, res.Close}
	w.contract.check(w.t, req, got)
	return got
}

func (w *testServer) get(path, key string) reply {
	return w.do(request{method: "GET", path: path, key: key})
}

func (w *testServer) post(path, key, body string) reply {
	return w.do(request{method: "POST", path: path, key: key, body: strings.NewReader(body),
		header: map[string]string{"Content-Type": "application/json"}})
}

func (w *testServer) single(body string) reply { return w.post("/v1/verify/single", w.key, body) }

// part is one part of a form; filename makes it a file.
type part struct{ name, filename, content string }

func encodeForm(parts ...part) (body string, contentType string) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for _, p := range parts {
		if p.filename != "" {
			f, _ := m.CreateFormFile(p.name, p.filename)
			_, _ = io.WriteString(f, p.content)
		} else {
			_ = m.WriteField(p.name, p.content)
		}
	}
	_ = m.Close()
	return b.String(), m.FormDataContentType()
}

func (w *testServer) upload(key string, header map[string]string, parts ...part) reply {
	body, kind := encodeForm(parts...)
	h := map[string]string{"Content-Type": kind}
	for k, v := range header {
		h[k] = v
	}
	return w.do(request{method: "POST", path: "/v1/verify/bulk", key: key, header: h, body: strings.NewReader(body)})
}

// uploadAndWait uploads a list and waits for its end.
func (w *testServer) uploadAndWait(key string, parts ...part) map[string]any {
	r := w.upload(key, nil, parts...)
	require.Equal(w.t, 202, r.status, "%s", r.body)
	return w.waitForJob(key, r.json(w.t)["job_id"].(string))
}

func (w *testServer) waitForJob(key, id string) map[string]any {
	for range 30 {
		r := w.get("/v1/verify/bulk/"+id+"?wait=10", key)
		require.Equal(w.t, 200, r.status, "%s", r.body)
		job := r.json(w.t)
		switch job["status"] {
		case "completed", "cancelled", "failed":
			return job
		}
	}
	w.t.Fatal("the job does not end")
	return nil
}

// raw sends bytes on a connection of their own and reads the answers until the server closes the connection or nothing
// comes for long.
func (w *testServer) raw(text string) string {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	require.NoError(w.t, err)
	defer c.Close()
	_, err = io.WriteString(c, text)
	require.NoError(w.t, err)
	require.NoError(w.t, c.SetReadDeadline(time.Now().Add(2*time.Second)))
	b, _ := io.ReadAll(c)
	return string(b)
}

// parseResponses splits what raw read.
func parseResponses(t testing.TB, text string) []reply {
	t.Helper()
	var list []reply
	r := bufio.NewReader(strings.NewReader(text))
	for {
		if _, err := r.Peek(1); err != nil {
			return list
		}
		res, err := http.ReadResponse(r, nil)
		require.NoError(t, err, "%q", text)
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		got := reply{res.StatusCode, res.Header, b, res.Close}
		if got.status >= 200 { // not an interim answer
			require.NotEmpty(t, got.header.Get("X-Request-Id"), "%q", text)
		}
		if got.status >= 400 && len(b) > 0 {
			requireAdvice(t, got)
		}
		list = append(list, got)
	}
}

func (w *testServer) credits() store.Credits {
	c, err := w.store.Credits(w.user.ID)
	require.NoError(w.t, err)
	require.NoError(w.t, w.store.CheckLedger(w.user.ID))
	return c
}

func query(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return path + "?" + v.Encode()
}

// liftLimits sets the limits of an account to the maximum.
func (w *testServer) liftLimits(u store.User) {
	require.NoError(w.t, w.store.SetLimits(u.ID, store.Limits{SinglePerMinute: store.MaxLimit,
		BulkPerHour: store.MaxLimit}, "test", time.Now()))
}
