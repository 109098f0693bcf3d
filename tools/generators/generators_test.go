package generators

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// generated is where clients are made: inside the module, whose requirements they use, and not known to Git.
const generated = "testdata/generated"

// TestGeneratedClientsVerify makes a client with each generator from what a server serves at /openapi.json, compiles it,
// and verifies an address with it.
func TestGeneratedClientsVerify(t *testing.T) {
	server := startServer(t)
	check(t, os.RemoveAll(generated))
	description := filepath.Join(t.TempDir(), "openapi.json")
	check(t, os.WriteFile(description, server.get(t, "/openapi.json"), 0o600))
	for name, generate := range map[string]func(dir string){
		"ogen": func(dir string) {
			run(t, "go", "tool", "ogen", "--target", dir, "--package", "client", "--clean", description)
		},
		"oapi": func(dir string) {
			check(t, os.MkdirAll(dir, 0o700))
			run(t, "go", "tool", "oapi-codegen", "-package", "client", "-generate", "types,client", "-o",
				filepath.Join(dir, "client.go"), description)
		},
	} {
		dir := filepath.Join(generated, name)
		generate(filepath.Join(dir, "client"))
		check(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))))
		for address, want := range map[string]string{"valid@example.com": "VALID 98", "no address": "INVALID 0"} {
			said := run(t, "go", "run", "./"+dir, server.url, server.key, address)
			if strings.TrimSpace(said) != want {
				t.Errorf("%s: %s: %q instead of %q", name, address, said, want)
			}
		}
	}
}

// server is a server with a test key, whose addresses name the verdict that they get.
type server struct{ url, key string }

func startServer(t *testing.T) server {
	t.Helper()
	program, data := filepath.Join(t.TempDir(), "probity"), filepath.Join(t.TempDir(), "data")
	run(t, "go", "-C", "../..", "build", "-o", program, "./cmd/probity")
	run(t, program, "user", "add", "ann@shop.example", "--data", data)
	key := run(t, program, "key", "create", "--user", "ann@shop.example", "--name", "test", "--test", "--data", data)
	c := exec.Command(program, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--dns", "127.0.0.1:1", "--log-format", "json")
	log, err := c.StderrPipe()
	check(t, err)
	check(t, c.Start())
	ended := make(chan struct{})
	t.Cleanup(func() {
		check(t, c.Process.Signal(syscall.SIGTERM))
		<-ended
		check(t, c.Wait())
	})
	serving := make(chan string, 1)
	go func() {
		defer close(ended)
		defer close(serving)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ Msg, Public string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "serving" {
				serving <- line.Public
			}
		}
	}()
	at, ok := <-serving
	if !ok {
		t.Fatal("the server ended")
	}
	return server{url: "http://" + at, key: strings.TrimSpace(key)}
}

// get returns what the server serves at a path.
func (s server) get(t *testing.T, path string) []byte {
	t.Helper()
	answer, err := http.Get(s.url + path)
	check(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	check(t, err)
	if !json.Valid(body) {
		t.Fatalf("%s: %s", path, body)
	}
	return body
}

// run runs a command that must succeed, and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s%s", name, args, err, out, errs.String())
	}
	return string(out)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
