package api

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The receivers print their port, then each body that they take, in base64. All of them read as many bytes as
// Content-Length says.
const (
	pythonServer = `
import base64, http.server
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(base64.b64encode(body).decode(), flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
print(server.server_port, flush=True)
server.serve_forever()
`
	wsgiServer = `
import base64, wsgiref.simple_server
def hook(environ, start):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    print(base64.b64encode(body).decode(), flush=True)
    start("200 OK", [])
    return []
class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *args): pass
server = wsgiref.simple_server.make_server("127.0.0.1", 0, hook, handler_class=Quiet)
print(server.server_port, flush=True)
server.serve_forever()
`
	// as body-parser, which Express uses, does with its limit of 100 kB
	nodeServer = `
const server = require("http").createServer((request, response) => {
  if (Number(request.headers["content-length"]) > 100 * 1024) {
    response.writeHead(413).end();
    return;
  }
  const pieces = [];
  request.on("data", (piece) => pieces.push(piece));
  request.on("end", () => {
    console.log(Buffer.concat(pieces).toString("base64"));
    response.end();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
`
)

// startScript runs a receiver, and returns its URL and the bodies that it takes. flag says that a script follows.
func startScript(t *testing.T, interpreter, flag, script string) (url string, bodies chan []byte) {
	program, err := exec.LookPath(interpreter)
	if err != nil {
		t.Skipf("no %s", interpreter)
	}
	server := exec.Command(program, flag, script)
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Kill())
		_ = server.Wait() // killed
	})
	lines := bufio.NewReader(out)
	port, err := lines.ReadString('\n')
	require.NoError(t, err)
	bodies = make(chan []byte, 16)
	go func() {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			body, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line)) // an empty body is seen below
			bodies <- body
		}
	}()
	return "http://127.0.0.1:" + strings.TrimSpace(port) + "/", bodies
}

// startGo runs a receiver on net/http that reads up to limit bytes, as a framework with a limit does.
func startGo(t *testing.T, limit int64) (url string, bodies chan []byte) {
	bodies = make(chan []byte, 16)
	receiver := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, limit))
		if err != nil {
			rw.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		bodies <- body
	}))
	t.Cleanup(receiver.Close)
	return receiver.URL + "/", bodies
}

// TestCallbackReceivers sends small and large lists to receivers as people write them: each gets the whole body, or the
// link where it takes no large one.
func TestCallbackReceivers(t *testing.T) {
	w := newTestServer(t, nil)
	const small, large = 3, 8000 // rows; the body of the large list has over 2 MB
	u, key := w.addCustomer("receivers@probity.test", 100_000)
	w.liftLimits(u)
	for name, start := range map[string]func(*testing.T) (string, chan []byte){
		"Python http.server": func(t *testing.T) (string, chan []byte) {
			return startScript(t, "python3", "-c", pythonServer)
		},
		"Python WSGI": func(t *testing.T) (string, chan []byte) {
			return startScript(t, "python3", "-c", wsgiServer)
		},
		"Node http, 100 kB": func(t *testing.T) (string, chan []byte) {
			return startScript(t, "node", "-e", nodeServer)
		},
		"Go net/http":       func(t *testing.T) (string, chan []byte) { return startGo(t, 1<<30) },
		"a limit of 100 kB": func(t *testing.T) (string, chan []byte) { return startGo(t, 100_000) },
	} {
		t.Run(name, func(t *testing.T) {
			url, bodies := start(t)
			for _, rows := range []int{small, large} {
				var list strings.Builder
				list.WriteString("email\n")
				for i := range rows {
					fmt.Fprintf(&list, "u%d@shop.test\n", i)
				}
				w.uploadAndWait(key, part{"file", "l.csv", list.String()}, part{"callback_url", "", url})
				select {
				case body := <-bodies:
					var event struct {
						Event   string           `json:"event"`
						Link    string           `json:"results_url"`
						Results []map[string]any `json:"results"`
					}
					require.NoError(t, json.Unmarshal(body, &event), "%.200s", body)
					require.Equal(t, "bulk.finished", event.Event)
					require.NotEmpty(t, event.Link)
					if rows == large && strings.HasSuffix(name, "100 kB") {
						require.Nil(t, event.Results)
					} else {
						require.Len(t, event.Results, rows)
					}
				case <-time.After(time.Minute):
					t.Fatal("no callback came")
				}
			}
		})
	}
}
