package receivers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

const (
	smallRows = 50
	largeRows = 5_000 // a body of more than a megabyte

	timeout = 2 * time.Minute
)

// receiver is a program that answers 200 to a POST and appends the body that it was given, and a NUL, to a file.
type receiver struct {
	name    string
	program string // what must be installed, and its package of Debian
	pkg     string
	args    func(port, bodies string) []string
	env     func(port, bodies string) []string
}

// receivers are started as their documentation does.
var receivers = []receiver{
	{name: "python http.server", program: "python3", pkg: "python3",
		args: func(port, bodies string) []string { return []string{"testdata/http_server.py", port, bodies} }},
	{name: "flask under gunicorn", program: "gunicorn", pkg: "gunicorn python3-flask",
		args: func(port, _ string) []string {
			return []string{"--chdir", "testdata", "--bind", "127.0.0.1:" + port, "flask_app:app"}
		},
		env: func(_, bodies string) []string { return []string{"BODIES=" + bodies} }},
	{name: "express", program: "node", pkg: "nodejs node-express",
		args: func(port, bodies string) []string { return []string{"testdata/express.js", port, bodies} },
		env:  func(_, _ string) []string { return []string{"NODE_PATH=/usr/share/nodejs"} }},
	{name: "php", program: "php", pkg: "php-cli",
		args: func(port, _ string) []string { return []string{"-S", "127.0.0.1:" + port, "testdata/receiver.php"} },
		env:  func(_, bodies string) []string { return []string{"BODIES=" + bodies} }},
}

// TestReceiversHaveTheWholeCallback uploads a small and a large list for each receiver.
func TestReceiversHaveTheWholeCallback(t *testing.T) {
	if os.Getenv("PROBITY_RECEIVERS") == "" {
		t.Skip("it needs gunicorn, Express and PHP: make receivers")
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	s := startService(ctx, t)
	t.Run("go net/http", func(t *testing.T) {
		bodies := filepath.Join(t.TempDir(), "bodies")
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = appendBody(bodies, body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}))
		t.Cleanup(server.Close)
		s.requireCallbacks(ctx, t, server.URL, bodies)
	})
	for _, r := range receivers {
		t.Run(r.name, func(t *testing.T) {
			_, err := exec.LookPath(r.program)
			require.NoError(t, err, "install it; on Debian: apt-get install %s", r.pkg)
			port, bodies := freePort(t), filepath.Join(t.TempDir(), "bodies")
			r.start(ctx, t, port, bodies)
			s.requireCallbacks(ctx, t, "http://127.0.0.1:"+port+"/hook", bodies)
		})
	}
}

// start starts the receiver, and returns once it accepts connections.
func (r *receiver) start(ctx context.Context, t *testing.T, port, bodies string) {
	t.Helper()
	c := exec.CommandContext(ctx, r.program, r.args(port, bodies)...)
	var words bytes.Buffer
	c.Stdout, c.Stderr, c.Env = &words, &words, os.Environ()
	c.WaitDelay = 5 * time.Second // a worker may outlive the process that started it
	if r.env != nil {
		c.Env = append(c.Env, r.env(port, bodies)...)
	}
	require.NoError(t, c.Start())
	exited := make(chan error, 1)
	go func() { exited <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // an error means that it has ended
		<-exited
		if t.Failed() {
			t.Logf("%s: %s", r.name, &words)
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		return err == nil && conn.Close() == nil
	}, time.Minute, 20*time.Millisecond, "%s does not listen", r.name)
}

// service is a server with a test key, which needs no mail servers.
type service struct{ base, key string }

var (
	servingLine = regexp.MustCompile(`msg=serving public=(\S+)`)
	keyWord     = regexp.MustCompile(`prb_test_\w+`)
)

func startService(ctx context.Context, t *testing.T) service {
	t.Helper()
	data := t.TempDir()
	run := func(args ...string) string {
		out, err := harness.Command(ctx, append(args, "--data", data)...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		return string(out)
	}
	run("user", "add", "ann@customer.example", "--credits", "1")
	s := service{key: keyWord.FindString(run("key", "create", "--user", "ann@customer.example", "--name", "callbacks",
		"--test"))}
	require.NotEmpty(t, s.key)
	c := harness.Command(ctx, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--disk-floor", "1",
		"--dns", "127.0.0.1:1", "--mail-from", "probe@prober.example", "--egress", "127.0.0.1=mx.prober.example",
		"--allow-private-callbacks", "127.0.0.0/8")
	lines, err := c.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	listens, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for in := bufio.NewScanner(lines); in.Scan(); {
			if found := servingLine.FindStringSubmatch(in.Text()); found != nil {
				listens <- found[1]
			}
		}
		_ = c.Wait() // it is killed below
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill() // an error means that it has ended
		<-ended
	})
	select {
	case at := <-listens:
		s.base = "http://" + at
	case <-ended:
		t.Fatal("the server ended")
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	return s
}

// requireCallbacks uploads lists and requires that every row of each reaches the receiver, in the body or by the link.
func (s service) requireCallbacks(ctx context.Context, t *testing.T, hook, bodies string) {
	t.Helper()
	for _, rows := range []int{smallRows, largeRows} {
		require.NoError(t, os.WriteFile(bodies, nil, 0o600))
		s.upload(ctx, t, rows, hook)
		e := s.delivered(ctx, t, bodies)
		require.Equal(t, "bulk.finished", e.Event)
		if rows == smallRows {
			require.Len(t, e.Results, rows, "a small event has its rows inline")
			continue
		}
		if e.Results != nil {
			require.Len(t, e.Results, rows)
			t.Logf("%d rows inline", rows)
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(s.get(ctx, t, e.ResultsURL))), "\n")
		require.Len(t, lines, rows+1, "header and rows")
		t.Logf("%d rows by the link", rows)
	}
}

func (s service) upload(ctx context.Context, t *testing.T, rows int, hook string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	file, err := form.CreateFormFile("file", "list.csv")
	require.NoError(t, err)
	fmt.Fprintln(file, "email,number")
	for i := range rows {
		fmt.Fprintf(file, "valid@example.com,%d\n", i)
	}
	require.NoError(t, form.WriteField("callback_url", hook))
	require.NoError(t, form.Close())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/v1/verify/bulk", &body)
	require.NoError(t, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Authorization", "Bearer "+s.key)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	words, err := io.ReadAll(answer.Body)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, err)
	require.Equal(t, http.StatusAccepted, answer.StatusCode, "%s", words)
}

// event is what a test reads of a callback.
type event struct {
	Event      string            `json:"event"`
	ResultsURL string            `json:"results_url"`
	Results    []json.RawMessage `json:"results"`
}

// delivered waits for the first body that the receiver kept.
func (s service) delivered(ctx context.Context, t *testing.T, bodies string) (e event) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		b, err := os.ReadFile(bodies)
		require.NoError(t, err)
		if body, _, whole := bytes.Cut(b, []byte{0}); whole {
			require.NoError(t, json.Unmarshal(body, &e), "%d bytes", len(body))
			t.Logf("a body of %d bytes", len(body))
			return e
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal("no callback came")
		}
	}
}

// get fetches a link, which may be relative to the service.
func (s service) get(ctx context.Context, t *testing.T, link string) []byte {
	t.Helper()
	if strings.HasPrefix(link, "/") {
		link = s.base + link
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s: %s", link, body)
	return body
}

func appendBody(file string, body []byte) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(body, 0)); err != nil {
		_ = f.Close() // the write's error tells more
		return err
	}
	return f.Close()
}

// freePort is a port of the loopback address that was free just now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
