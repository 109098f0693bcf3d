package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	client "probity/clients/go"
	"probity/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

const (
	rows      = 200
	largeRows = 400 // of 50 kB each
	cuts      = 2   // of the connection of the large list, each after 7 MiB
	timeout   = 3 * time.Minute
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// task is what a client is to do.
type task struct {
	URL     string  `json:"url"`
	Key     string  `json:"key"`
	Address string  `json:"address"` // is valid
	List    string  `json:"list"`
	Large   string  `json:"large"` // a list that is sent by the resumable protocol
	Webhook webhook `json:"webhook"`
}

type webhook struct {
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Secret  string            `json:"secret"`
}

// outcome is what came of it.
type outcome struct {
	Single    string   `json:"single"`
	Control   string   `json:"control"`
	Batch     []string `json:"batch"`
	SentWhole bool     `json:"sent_whole"` // so said the last progress
	Large     string   `json:"large"`      // the job of the large list
	Job       string   `json:"job"`
	Ended     string   `json:"ended"`
	Rows      int      `json:"rows"`
	Valid     int      `json:"valid"`
	Refused   int      `json:"refused"` // status of a call with a wrong key
	Event     string   `json:"event"`
	Forged    string   `json:"forged"` // what became of a callback that was changed
}

// TestClients uses each client.
func TestClients(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	harness.DependOnSources(t)
	server, uploads := startDemo(ctx, t), 1 // the demo's own
	for name, use := range map[string]func(context.Context, *testing.T, task) outcome{
		"go": useGo, "typescript": useTypeScript, "python": usePython,
	} {
		t.Run(name, func(t *testing.T) {
			proxy := newFailingProxy(t, server.URL)
			work := server
			work.URL = proxy.URL
			got := use(ctx, t, work)
			var job struct {
				Counts map[string]int
				Total  int `json:"total_rows"`
			}
			server.get(ctx, t, "/v1/verify/bulk/"+got.Job, &job)
			require.Equal(t, rows, job.Total)
			want := outcome{Single: client.Valid, Batch: []string{client.Valid, client.Invalid}, SentWhole: true,
				Ended: "completed", Rows: rows, Valid: job.Counts[client.Valid], Refused: http.StatusUnauthorized,
				Event: "bulk.finished", Forged: "refused"}
			want.Control, want.Job, want.Large = got.Control, got.Job, got.Large
			require.Equal(t, want, got)
			require.Contains(t, got.Control, "refused", "of an acceptance it is a refusal")
			server.get(ctx, t, "/v1/verify/bulk/"+got.Large, &job)
			require.Equal(t, largeRows, job.Total)
			require.EqualValues(t, cuts, proxy.cut.Load(), "the upload was cut")
			require.Less(t, proxy.taken.Load(), largeSize(t, server)*5/4, "little was sent twice")
			uploads += 2
			var listed struct{ Jobs []struct{ Status string } }
			server.get(ctx, t, "/v1/verify/bulk", &listed)
			require.Len(t, listed.Jobs, uploads, "an upload that was repeated is one job")
			require.Len(t, proxy.lost, 4, "each POST was repeated")
		})
	}
}

// useGo uses the client for Go.
func useGo(ctx context.Context, t *testing.T, of task) (got outcome) {
	c := client.New(of.URL, of.Key)
	single, err := c.Verify(ctx, of.Address, client.Options{Details: true})
	require.NoError(t, err)
	got.Single, got.Control = single.Status, single.Details.Control.Kind
	batch, err := c.VerifyBatch(ctx, []string{of.Address, "no address"}, client.Options{})
	require.NoError(t, err)
	for _, r := range batch {
		got.Batch = append(got.Batch, r.Status)
	}
	list, err := os.Open(of.List)
	require.NoError(t, err)
	defer list.Close()
	job, err := c.Upload(ctx, client.Upload{Filename: "list.csv", List: list,
		Parts:    map[string]string{"details": "true"},
		Progress: func(sent, total int64) { got.SentWhole = sent == total }})
	require.NoError(t, err)
	large, err := os.Open(of.Large)
	require.NoError(t, err)
	defer large.Close()
	largeJob, err := c.Upload(ctx, client.Upload{Filename: "large.csv", List: large,
		Parts:    map[string]string{"start": "false"},
		Progress: func(sent, total int64) { got.SentWhole = got.SentWhole && sent <= total }})
	require.NoError(t, err)
	got.Large = largeJob.ID
	job, err = c.Wait(ctx, job.ID, nil)
	require.NoError(t, err)
	got.Job, got.Ended = job.ID, job.Status
	for _, err := range c.Rows(ctx, job.ID) {
		require.NoError(t, err)
		got.Rows++
	}
	for row, err := range c.Rows(ctx, job.ID, client.Valid) {
		require.NoError(t, err)
		require.Equal(t, client.Valid, row.Status)
		got.Valid++
	}
	_, err = client.New(of.URL, "wrong").Verify(ctx, of.Address, client.Options{})
	if refusal, ok := errors.AsType[*client.Error](err); ok {
		got.Refused = refusal.Status
	}
	h := http.Header{}
	for name, value := range of.Webhook.Headers {
		h.Set(name, value)
	}
	event, err := client.ReadWebhook(h, []byte(of.Webhook.Body), time.Now(), of.Webhook.Secret)
	require.NoError(t, err)
	got.Event = event.Event
	_, err = client.ReadWebhook(h, []byte(of.Webhook.Body+" "), time.Now(), of.Webhook.Secret)
	if errors.Is(err, client.ErrWebhook) {
		got.Forged = "refused"
	}
	return got
}

// useTypeScript uses the client for TypeScript, with the compiler of the dashboard.
func useTypeScript(ctx context.Context, t *testing.T, of task) outcome {
	const compiler = "../../api/web/node_modules/typescript/bin/tsc"
	need(t, "node")
	if _, err := os.Stat(compiler); err != nil {
		t.Skip("it needs the packages of the dashboard: cd api/web && npm ci")
	}
	dir := t.TempDir()
	out, err := exec.CommandContext(ctx, "node", compiler, "-p", "../../clients/typescript", "--outDir",
		dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
	return run(ctx, t, of, "node", "../../clients/typescript/e2e.mjs", filepath.Join(dir, "probity.js"))
}

// usePython uses the client for Python.
func usePython(ctx context.Context, t *testing.T, of task) outcome {
	need(t, "python3")
	return run(ctx, t, of, "python3", "-B", "../../clients/python/e2e.py")
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("it needs %s", program)
	}
}

// run runs a script that uses a client; the task is its first argument.
func run(ctx context.Context, t *testing.T, of task, program string, args ...string) (got outcome) {
	t.Helper()
	b, err := json.Marshal(of)
	require.NoError(t, err)
	script := 0
	for !strings.Contains(args[script], "e2e.") {
		script++
	}
	args = append(args[:script+1:script+1], append([]string{string(b)}, args[script+1:]...)...)
	c := exec.CommandContext(ctx, program, args...)
	var problems strings.Builder
	c.Stderr = &problems
	out, err := c.Output()
	require.NoError(t, err, "%s", &problems)
	require.NoError(t, json.Unmarshal(out, &got), "%s", out)
	return got
}

// demoCall is the call that a demo proposes.
var demoCall = regexp.MustCompile(`curl -s (\S+)/v1/verify/single -H 'Authorization: Bearer (\S+)'.*"email":"([^"]+)"`)

// startDemo starts a demo, and returns a task for it.
func startDemo(ctx context.Context, t *testing.T) (of task) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	c := harness.Command(ctx, "demo", "--rows", strconv.Itoa(rows), "--listen", "127.0.0.1:0", "--dir", dir)
	lines, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	found, ended := make(chan []string, 1), make(chan struct{})
	var words strings.Builder // read after ended
	go func() {
		defer close(ended)
		for in := bufio.NewScanner(lines); in.Scan(); {
			words.WriteString(in.Text() + "\n")
			if call := demoCall.FindStringSubmatch(in.Text()); call != nil {
				found <- call
			}
		}
		_ = c.Wait() // it is interrupted below
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt) // an error means that it has ended
		<-ended
	})
	select {
	case call := <-found:
		of = task{URL: call[1], Key: call[2], Address: call[3], List: filepath.Join(dir, "list.csv")}
	case <-ended:
		t.Fatalf("the demo ended: %s", &words)
	}
	of.Large = filepath.Join(t.TempDir(), "large.csv")
	filler := strings.Repeat("x", 50_000)
	var list strings.Builder
	list.WriteString("email,filler\n")
	for row := range largeRows {
		fmt.Fprintf(&list, "a%d@large.example,%s\n", row, filler)
	}
	require.NoError(t, os.WriteFile(of.Large, []byte(list.String()), 0o600))
	hook, err := webhooks.NewWebhook(secret)
	require.NoError(t, err)
	now := time.Now()
	of.Webhook.Body, of.Webhook.Secret = `{"event":"bulk.finished","job_id":"j1"}`, secret
	signature, err := hook.Sign("msg1", now, []byte(of.Webhook.Body))
	require.NoError(t, err)
	of.Webhook.Headers = map[string]string{"webhook-id": "msg1", "webhook-signature": signature,
		"webhook-timestamp": strconv.FormatInt(now.Unix(), 10)}
	return of
}

// get reads an answer of the server without a client.
func (of task) get(ctx context.Context, t *testing.T, path string, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, of.URL+path, nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+of.Key)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, json.NewDecoder(answer.Body).Decode(into))
}

// largeSize is the size of the large list in bytes.
func largeSize(t *testing.T, of task) int64 {
	t.Helper()
	info, err := os.Stat(of.Large)
	require.NoError(t, err)
	return info.Size()
}

// failingProxy passes requests on, and loses the first answer to the POSTs of each path. The first PATCHes lose their
// connection after 7 MiB.
type failingProxy struct {
	*httptest.Server
	mu    sync.Mutex
	lost  map[string]bool // paths; guarded by mu
	cut   atomic.Int64    // PATCHes that were cut
	taken atomic.Int64    // bytes of all PATCHes
}

// cutBody is the body of a PATCH. It ends with an error, unless it is to be passed on whole.
type cutBody struct {
	io.ReadCloser
	p    *failingProxy
	left int64 // until the cut; negative: none
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	if b.left > 0 {
		p = p[:min(int64(len(p)), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	b.p.taken.Add(int64(n))
	if b.left > 0 {
		b.left -= int64(n)
	}
	return n, err
}

// cutPatches cuts the connections of the first PATCHes on both sides.
func (p *failingProxy) cutPatches(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPatch {
			forward.ServeHTTP(w, r)
			return
		}
		body := &cutBody{ReadCloser: r.Body, p: p, left: -1}
		r.Body = body
		if p.cut.Load() < cuts {
			p.cut.Add(1)
			body.left = 7 << 20
		}
		forward.ServeHTTP(w, r)
		if body.left == 0 {
			panic(http.ErrAbortHandler) // the connection is closed without an answer
		}
	})
}

func newFailingProxy(t *testing.T, server string) *failingProxy {
	t.Helper()
	to, err := url.Parse(server)
	require.NoError(t, err)
	p := &failingProxy{lost: map[string]bool{}}
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.ModifyResponse = func(answer *http.Response) error {
		if answer.Request.Method != http.MethodPost || answer.StatusCode/100 != 2 || !p.lose(answer.Request.URL.Path) {
			return nil
		}
		answer.StatusCode, answer.Status = http.StatusServiceUnavailable, "503 Service Unavailable"
		answer.Header.Set("Retry-After", "1")
		return nil
	}
	p.Server = httptest.NewServer(p.cutPatches(forward))
	t.Cleanup(p.Close)
	return p
}

// lose reports whether the answer is the first of its path.
func (p *failingProxy) lose(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.lost[path]
	p.lost[path] = true
	return first
}
