package api

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDetailsOfAListAreAddedToItsResult: with details a result has columns more, and its JSON lines the details that a
// single call has; without, not a byte of it changes.
func TestDetailsOfAListAreAddedToItsResult(t *testing.T) {
	const list = "email,note\nann@shop.test,1\n,2\nnobody@shop.test,3\nno address,4\n"
	w := newTestServer(t, nil)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`) // of each job's own probes
	results := func(query string, parts ...part) []string {
		job := w.uploadAndWait(w.key, append(parts, part{"file", "l.csv", list})...)
		text := string(w.get(job["results_url"].(string)+query, w.key).body)
		return lines(times.ReplaceAllString(text, "2026-03-01T12:00:00Z"))
	}
	results("") // later ones come from the cache
	without, with := results("", part{"details", "", "false"}), results("", part{"details", "", "true"})
	require.Len(t, with, len(without))
	for i := range with {
		added, found := strings.CutPrefix(with[i], without[i])
		require.True(t, found, "%q begins with %q", with[i], without[i])
		require.Equal(t, 16, strings.Count(added, ","), added)
	}
	require.True(t, strings.HasSuffix(with[0], ",verify_rule,verify_smtp_code,verify_enhanced_code,verify_smtp_message,verify_mx_host,verify_attempts,"+
		"verify_checked_by,verify_egress_source,verify_control_kind,verify_control_smtp_code,verify_control_enhanced_code,verify_control_smtp_message,"+
		"verify_control_mx_host,verify_control_meaning,verify_control_rule,verify_control_at"), with[0])

	single := w.single(`{"email":"nobody@shop.test","details":true}`).json(t)["details"].(map[string]any)
	want := slices.Sorted(maps.Keys(single))
	plain := results("?format=jsonl")
	for i, line := range results("?format=jsonl", part{"details", "", "true"}) {
		var row, bare map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		require.NoError(t, json.Unmarshal([]byte(plain[i]), &bare))
		got := row["details"]
		delete(row, "details")
		require.Equal(t, bare, row)
		if row["status"] == nil {
			require.Nil(t, got, "a blank row")
			continue
		}
		require.Equal(t, want, slices.Sorted(maps.Keys(got.(map[string]any))))
	}
	require.Equal(t, 422, w.upload(w.key, nil, part{"details", "", "perhaps"}, part{"file", "l.csv", list}).status)
}
