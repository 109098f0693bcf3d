package clients

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// assistant speaks to `probity mcp` as the program of an assistant does.
type assistant struct{ *mcp.ClientSession }

// newAssistant starts `probity mcp` for a server.
func newAssistant(ctx context.Context, t *testing.T, server, key string) assistant {
	t.Helper()
	command := harness.Command(ctx, "mcp", "--server", server)
	command.Env = append(command.Environ(), "PROBITY_KEY="+key)
	client := mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	require.NoError(t, err)
	return assistant{session}
}

// end closes the program's input, at which it ends.
func (a assistant) end(t *testing.T) { require.NoError(t, a.Close()) }

// call calls a tool: its answer, or the text of the error.
func (a assistant) call(ctx context.Context, t *testing.T, tool string, arguments any) (answer, refusal string) {
	t.Helper()
	result, err := a.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	require.NoError(t, err)
	require.Len(t, result.Content, 1)
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		return "", text
	}
	structured, err := json.Marshal(result.StructuredContent)
	require.NoError(t, err)
	require.JSONEq(t, text, string(structured))
	return text, ""
}

// ask sends a request to the API without a client.
func (of task) ask(ctx context.Context, t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, of.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+of.Key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	var v map[string]any
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&v))
	return v
}

// withoutNewTimes removes the times of a batch's verdicts that are not from the cache: those are of this answer alone.
func withoutNewTimes(batch map[string]any) map[string]any {
	for _, r := range batch["results"].([]any) {
		result := r.(map[string]any)
		if result["from_cache"] == false {
			delete(result, "verified_at")
		}
	}
	return batch
}

// TestAssistantsToolsGiveTheAnswersOfTheAPI: verdicts, jobs and refusals are those of the server.
func TestAssistantsToolsGiveTheAnswersOfTheAPI(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	harness.DependOnSources(t)
	server := startDemo(ctx, t)
	a := newAssistant(ctx, t, server.URL, server.Key)
	defer a.end(t)
	decoded := func(text string) (v map[string]any) {
		require.NoError(t, json.Unmarshal([]byte(text), &v), text)
		return v
	}
	tools, err := a.ListTools(ctx, nil)
	require.NoError(t, err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	require.ElementsMatch(t, []string{"verify", "verify_batch", "explain", "job_status", "job_why"}, names)

	emails := []string{server.Address, "no address", "x@missing.example"}
	text, err := json.Marshal(map[string]any{"emails": emails})
	require.NoError(t, err)
	server.ask(ctx, t, http.MethodPost, "/v1/verify/batch", string(text)) // later answers are from the cache
	want := withoutNewTimes(server.ask(ctx, t, http.MethodPost, "/v1/verify/batch", string(text)))
	got, refusal := a.call(ctx, t, "verify_batch", map[string]any{"emails": emails})
	require.Empty(t, refusal)
	require.Equal(t, want, withoutNewTimes(decoded(got)))
	for i, email := range emails {
		of := want["results"].([]any)[i].(map[string]any)
		got, refusal := a.call(ctx, t, "verify", map[string]any{"email": email, "timeout": 10})
		require.Empty(t, refusal)
		for _, name := range []string{"email", "status", "reason", "score"} {
			require.Equal(t, of[name], decoded(got)[name], "%s of %s", name, email)
		}
		got, refusal = a.call(ctx, t, "explain", map[string]any{"email": email})
		require.Empty(t, refusal)
		explained := decoded(got)
		require.Equal(t, of["status"], explained["verification"].(map[string]any)["status"])
		require.Contains(t, explained["verification"].(map[string]any)["details"], "rule")
		reasons := server.ask(ctx, t, http.MethodGet, "/v1/reasons", "")["reasons"].([]any)
		at := slices.IndexFunc(reasons, func(r any) bool {
			return r.(map[string]any)["reason"] == of["reason"] && r.(map[string]any)["status"] == of["status"]
		})
		require.Equal(t, reasons[at].(map[string]any)["meaning"], explained["meaning"])
	}

	jobs := server.ask(ctx, t, http.MethodGet, "/v1/verify/bulk", "")["jobs"].([]any)
	job := jobs[0].(map[string]any)["job_id"].(string)
	got, refusal = a.call(ctx, t, "job_status", map[string]any{"job_id": job})
	require.Empty(t, refusal)
	require.Equal(t, server.ask(ctx, t, http.MethodGet, "/v1/verify/bulk/"+job, "")["counts"], decoded(got)["counts"])
	got, refusal = a.call(ctx, t, "job_why", map[string]any{"job_id": job})
	require.Empty(t, refusal)
	require.Equal(t, job, decoded(got)["job_id"])
	require.Contains(t, decoded(got), "receivers")

	detail := func(method, path, body string) string {
		return server.ask(ctx, t, method, path, body)["detail"].(string)
	}
	for _, c := range []struct {
		tool      string
		arguments map[string]any
		want      string
	}{
		{"verify", map[string]any{"email": 3}, "want \"string\""},
		{"verify", map[string]any{"email": emails[0], "tiemout": 3}, "tiemout"},
		{"verify", map[string]any{"email": emails[0], "timeout": 99},
			detail(http.MethodPost, "/v1/verify/single", `{"email":"a@b.example","timeout":99}`)},
		{"verify_batch", map[string]any{"emails": []string{}},
			detail(http.MethodPost, "/v1/verify/batch", `{"emails":[]}`)},
		{"explain", map[string]any{}, "email"},
		{"job_status", map[string]any{"job_id": "../../account"},
			detail(http.MethodGet, "/v1/verify/bulk/"+url.PathEscape("../../account"), "")},
		{"job_why", map[string]any{"job_id": "none"}, detail(http.MethodGet, "/v1/verify/bulk/none/why", "")},
	} {
		_, refusal := a.call(ctx, t, c.tool, c.arguments)
		require.Contains(t, refusal, c.want, c.tool)
	}

	keyless := newAssistant(ctx, t, server.URL, "prb_live_wrong")
	defer keyless.end(t)
	_, refusal = keyless.call(ctx, t, "verify", map[string]any{"email": emails[0]})
	server.Key = "prb_live_wrong"
	require.Equal(t, detail(http.MethodGet, "/v1/verify/bulk", ""), refusal)
	lost := newAssistant(ctx, t, "http://127.0.0.1:1", "x")
	defer lost.end(t)
	_, refusal = lost.call(ctx, t, "verify", map[string]any{"email": emails[0]})
	require.Contains(t, refusal, "does not answer")
}
