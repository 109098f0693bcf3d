package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// TestFeedbackIsSentInParts: a long file with words and columns of its own is sent whole, and the sums are those of all
// parts.
func TestFeedbackIsSentInParts(t *testing.T) {
	var parts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		parts = append(parts, string(b))
		if r.URL.Path != "/v1/feedback" || r.Header.Get("Content-Type") != "text/csv" ||
			r.Header.Get("Authorization") != "Bearer prb_live_key" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"accepted":%d,"repeated":1}`, strings.Count(string(b), "\n")-2)
	}))
	t.Cleanup(server.Close)
	t.Setenv("PROBITY_KEY", "prb_live_key")
	file := filepath.Join(t.TempDir(), "log.csv")
	var list strings.Builder
	list.WriteString("When;To;Event\n")
	for i := range reportsOfRequest + 2 {
		fmt.Fprintf(&list, "2026-03-01T12:00:00Z;p%d@example.org;Hard\n", i)
	}
	require.NoError(t, os.WriteFile(file, []byte(list.String()), 0o600))
	c := feedbackCmd{File: file, EmailColumn: "to", OutcomeColumn: "event", TimeColumn: "when",
		TextColumn: "bounce_text",
		Map:        map[string]string{"hard": "bounced_hard"}, Server: server.URL}
	var out bytes.Buffer
	con := &console.IO{Out: &out, Err: io.Discard}
	require.NoError(t, c.Run(t.Context(), con))
	require.Equal(t, fmt.Sprintf("accepted: %d; sent before: 2\n", reportsOfRequest), out.String())
	require.Len(t, parts, 2)
	require.Equal(t, "email,outcome,at,bounce_text\np5000@example.org,bounced_hard,2026-03-01T12:00:00Z,\np5001@example.org,bounced_hard,2026-03-01T12:00:00Z,\n", parts[1])
	c.Map = nil
	require.ErrorContains(t, c.Run(t.Context(), con),
		`line 2: "Hard" is not one of delivered, bounced_hard, bounced_soft, complained`)
}
