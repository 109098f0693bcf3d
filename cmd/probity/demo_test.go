package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// TestDemo runs the smallest demo: it is the first command that users run.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a simulated internet and a server; run without -short")
	}
	dir := filepath.Join(t.TempDir(), "demo")
	var out, words bytes.Buffer
	status := run(t.Context(), []string{"demo", "--rows", "100", "--exit", "--listen", "127.0.0.1:0", "--dir", dir},
		&console.IO{Out: &out, Err: &words})
	require.Zero(t, status, words.String())
	results, err := filepath.Glob(filepath.Join(dir, "*result*"))
	require.NoError(t, err)
	require.Len(t, results, 1, "%s", out.String())
	info, err := os.Stat(results[0])
	require.NoError(t, err)
	require.Positive(t, info.Size())
	require.NotContains(t, words.String(), "password", "its server is gone")
	require.Regexp(t, `with its dashboard:\n  .+ demo --rows 100\n$`, words.String())
}

// untilText collects what is written, and calls found once it contains a text.
type untilText struct {
	bytes.Buffer
	text  string
	found func()
}

func (u *untilText) Write(b []byte) (int, error) {
	n, err := u.Buffer.Write(b)
	if strings.Contains(u.String(), u.text) {
		u.found()
	}
	return n, err
}

// TestDemoPrintsCommandsThatWork: the single call that a demo prints while it is up is of an address that it knows.
func TestDemoPrintsCommandsThatWork(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a simulated internet and a server; run without -short")
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var answer struct{ Status string }
	words := &untilText{text: "The API is described at"}
	words.found = func() {
		defer interrupt()
		printed := regexp.MustCompile(`curl -s (\S+) -H '(\S+): (.+?)' -H '(\S+): (.+?)' -d '(.+?)'`).FindStringSubmatch(words.String())
		require.NotNil(t, printed, words.String())
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, printed[1], strings.NewReader(printed[6]))
		require.NoError(t, err)
		r.Header.Set(printed[2], printed[3])
		r.Header.Set(printed[4], printed[5])
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer got.Body.Close()
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.NoError(t, json.NewDecoder(got.Body).Decode(&answer))
	}
	run(ctx, []string{"demo", "--rows", "100", "--listen", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "demo")},
		&console.IO{Out: io.Discard, Err: words})
	require.NotEmpty(t, answer.Status, words.String())
	require.NotEqual(t, "UNKNOWN", answer.Status)
}
