package callback

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/outward"
	"probity/internal/memnet"
	"probity/store"
)

// testEnv is a store, an in-memory network with receivers, and the Sender between them.
type testEnv struct {
	t         *testing.T
	fs        *vfs.MemFS
	store     *store.Store
	net       *memnet.Network
	rows      *fakeRows
	account   string
	sender    *Sender
	stop      func()
	configure func(*Config, *outward.Config)

	mu      sync.Mutex
	names   map[string][]netip.Addr
	lookups map[string]int
	dialled []string
}

const receiverAddr = "198.41.0.4" // a public address of the in-memory network

// runTest runs a test in a synctest bubble.
func runTest(t *testing.T, set func(*Config, *outward.Config), test func(t *testing.T, w *testEnv)) {
	synctest.Test(t, func(t *testing.T) {
		w := &testEnv{
			t: t, fs: vfs.NewMem(), net: memnet.New(), rows: &fakeRows{}, configure: set, lookups: map[string]int{},
			names: map[string][]netip.Addr{"hook.example": {netip.MustParseAddr(receiverAddr)}},
		}
		w.open()
		u, _, err := w.store.AddUser(t.Context(), store.NewUser{Email: "ann@example.com", Password: "long enough"},
			"test", time.Now())
		require.NoError(t, err)
		w.account = u.ID
		w.start()
		t.Cleanup(func() {
			w.shutdown()
			w.advance(10 * time.Minute) // for receivers that sleep
		})
		test(t, w)
	})
}

func (w *testEnv) open() {
	var err error
	w.store, err = store.Open(w.fs, "state")
	require.NoError(w.t, err)
	cfg := Config{
		Store: w.store, Results: w.rows, PublicURL: "https://verify.example.com/",
		Record: func(j *store.Job, _ store.Callback) ([]byte, error) {
			return json.Marshal(map[string]any{"job_id": j.ID, "status": j.State, "total_rows": j.Rows})
		},
	}
	to := outward.Config{Dial: w.dial, Lookup: w.lookup}
	if w.configure != nil {
		w.configure(&cfg, &to)
	}
	cfg.Dialer = outward.New(to)
	w.sender, err = New(cfg)
	require.NoError(w.t, err)
}

func (w *testEnv) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.sender.Run(ctx) }()
	w.stop = func() {
		cancel()
		require.NoError(w.t, <-ended)
	}
}

func (w *testEnv) shutdown() {
	w.stop()
	require.NoError(w.t, w.store.Close())
}

// restart restarts the Sender and its store on the same disk.
func (w *testEnv) restart() {
	w.shutdown()
	w.open()
	w.start()
}

func (w *testEnv) dial(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	w.mu.Unlock()
	return w.net.DialFrom(local)(ctx, network, address)
}

// name gives a name its addresses.
func (w *testEnv) name(name string, addrs ...netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[name] = addrs
}

func (w *testEnv) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookups[host]++
	return w.names[host], nil
}

// finish makes a finished job with a callback, in one commit.
func (w *testEnv) finish(id, url string, set ...func(*store.Job)) *store.Job {
	j := &store.Job{
		ID: id, Account: w.account, State: store.JobCompleted, Dialect: []byte("{}"), CreatedAt: time.Now(),
		FinishedAt: time.Now(),
		Rows:       3, CallbackURL: url,
	}
	for _, s := range set {
		s(j)
	}
	require.NoError(w.t, w.store.AcceptJob(j, Schedule(j)))
	return j
}

func withContent(c string) func(*store.Job) { return func(j *store.Job) { j.CallbackContent = c } }
func withRows(n int64) func(*store.Job)     { return func(j *store.Job) { j.Rows = n } }

// waitForState waits until the callback has the state, and returns it with its log.
func (w *testEnv) waitForState(job string, want store.CallbackState) (store.Callback, []store.Attempt) {
	w.t.Helper()
	deadline := time.Now().Add(7 * 24 * time.Hour)
	for step := time.Second; ; step = min(2*step, time.Hour) {
		cb, err := w.store.Callback(job)
		require.NoError(w.t, err)
		if cb.State == want {
			synctest.Wait() // the attempt goes on after it is recorded
			log, err := w.store.CallbackLog(job)
			require.NoError(w.t, err)
			return cb, log
		}
		if !time.Now().Before(deadline) {
			log, _ := w.store.CallbackLog(job)
			require.FailNow(w.t, "never came about", "%s is %s: %+v", job, cb.State, log)
		}
		w.advance(step)
	}
}

// advance lets the clock of the bubble run.
func (w *testEnv) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// received is a request that a receiver got.
type received struct {
	path   string
	at     time.Time
	header http.Header
	length int64
	body   []byte
	err    error // of reading the body
}

// event is the body as JSON.
func (h received) event(t *testing.T) (e receivedEvent) {
	t.Helper()
	require.NoError(t, h.err)
	require.NoError(t, json.Unmarshal(h.body, &e), "%.200s", h.body)
	return e
}

type receivedEvent struct {
	Event      string           `json:"event"`
	JobID      string           `json:"job_id"`
	Job        map[string]any   `json:"job"`
	ResultsURL *string          `json:"results_url"`
	Results    []map[string]any `json:"results"`
}

// inbox collects the requests of a receiver.
type inbox struct {
	mu  sync.Mutex
	got []received
}

func (b *inbox) all() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got
}

// receive serves HTTP at the address; answer sees the request's number, from 1.
func (w *testEnv) receive(addr string, answer func(n int, rw http.ResponseWriter, h received)) *inbox {
	ln, err := w.net.Listen(netip.MustParseAddrPort(addr))
	require.NoError(w.t, err)
	return w.serve(ln, answer)
}

func (w *testEnv) serve(ln net.Listener, answer func(n int, rw http.ResponseWriter, h received)) *inbox {
	box := &inbox{}
	srv := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		h := received{path: r.RequestURI, at: time.Now(), header: r.Header, length: r.ContentLength, body: body,
			err: err}
		box.mu.Lock()
		box.got = append(box.got, h)
		n := len(box.got)
		box.mu.Unlock()
		answer(n, rw, h)
	})}
	go srv.Serve(ln)
	w.t.Cleanup(func() { srv.Close() })
	return box
}

func status(codes ...int) func(int, http.ResponseWriter, received) {
	return func(n int, rw http.ResponseWriter, _ received) { rw.WriteHeader(codes[min(n, len(codes))-1]) }
}

// raw serves bare connections; handle may end one in any way.
func (w *testEnv) raw(addr string, handle func(n int, conn net.Conn)) {
	ln, err := w.net.Listen(netip.MustParseAddrPort(addr))
	require.NoError(w.t, err)
	go func() {
		for n := 1; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(n, conn)
			}()
		}
	}()
	w.t.Cleanup(func() { ln.Close() })
}

// reset closes a connection with a TCP reset.
func reset(conn net.Conn) {
	conn.(interface{ SetLinger(int) error }).SetLinger(0)
	conn.Close()
}

// fakeRows generates results as they are written.
type fakeRows struct {
	n       atomic.Int64 // rows of every job, 0: three
	wrote   atomic.Int64 // bytes of this pass
	dropped atomic.Int64
	passes  atomic.Int64
	fail    atomic.Bool
	other   atomic.Bool // the rows change from pass to pass
}

func (r *fakeRows) WriteResults(_ context.Context, job string, w io.Writer) error {
	r.wrote.Store(0)
	pass := r.passes.Add(1)
	n := r.n.Load()
	if n == 0 {
		n = 3
	}
	var line []byte
	for i := range n {
		line = fmt.Appendf(line[:0], `{"row":%d,"email":"user%d@%s.example","status":"VALID","score":98,"reason":null}`+
			"\n", i+1, i, job)
		if r.other.Load() {
			line = bytes.Replace(line, []byte("VALID"), fmt.Appendf(nil, "%05d", pass), 1)
		}
		m, err := w.Write(line)
		r.wrote.Add(int64(m))
		if err != nil {
			return err
		}
		if r.fail.Load() {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

func (r *fakeRows) DropResults(string) error {
	r.dropped.Add(1)
	return nil
}
