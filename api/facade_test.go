package api

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/api/facade"
)

// TestFacadesAreAnsweredByTheAPI calls façades of a server: they cost credits, count in limits and are refused as a
// single verification is, and connections stay usable. Without the setting there are none.
func TestFacadesAreAnsweredByTheAPI(t *testing.T) {
	facades, err := facade.New([]string{"kickbox", "neverbounce"})
	require.NoError(t, err)
	w := newTestServer(t, func(c *Config) { c.Front = facades.Handle })
	call := func(path, key string, body io.Reader) (int, http.Header, map[string]any) {
		t.Helper()
		req, err := http.NewRequest("POST", w.base+facade.Prefix+path, body)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "token "+key)
		res, err := client.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		var m map[string]any
		require.NoError(t, json.NewDecoder(res.Body).Decode(&m))
		return res.StatusCode, res.Header, m
	}
	direct := w.single(`{"email":"jane@gmail.com"}`).json(t)
	require.Equal(t, "VALID", direct["status"])
	status, header, m := call("kickbox/v2/verify?email=jane@gmail.com", w.key, nil)
	require.Equal(t, 200, status, m)
	require.Equal(t, "deliverable", m["result"])
	require.Equal(t, "jane@gmail.com", m["email"])
	require.NotEmpty(t, header.Get("X-Request-Id"))
	require.NotEmpty(t, header.Get("RateLimit-Limit"))

	balance := w.get("/v1/credits", w.key).json(t)["balance"]
	require.EqualValues(t, initialCredits-2, balance)
	_, _, m = call("kickbox/v2/balance", w.key, nil)
	require.Equal(t, balance, m["balance"])

	// a body in chunks, one that is too long, and one that is not JSON
	body := `{"key":"` + w.key + `","email":"jane@gmail.com"}`
	_, _, m = call("neverbounce/v4.2/single/check", "", io.MultiReader(strings.NewReader(body)))
	require.Equal(t, "valid", m["result"], m)
	_, _, m = call("kickbox/v2/balance", w.key, io.MultiReader(strings.NewReader("{}")))
	require.EqualValues(t, initialCredits-3, m["balance"], m)
	status, _, m = call("kickbox/v2/verify", w.key, strings.NewReader(strings.Repeat(" ", 1<<20)))
	require.Equal(t, 400, status)
	require.Contains(t, m["message"], "over 65536 bytes")
	status, _, m = call("kickbox/v2/verify", w.key, strings.NewReader(`[]`))
	require.Equal(t, 400, status)
	require.Contains(t, m["message"], "JSON object")
	status, _, m = call("kickbox/v2/verify", "wrong", strings.NewReader(`[]`))
	require.Equal(t, 401, status)
	require.Equal(t, badKeyDetail, m["message"])
	status, _, m = call("kickbox/v2/verify", w.key, nil)
	require.Equal(t, 422, status)
	require.Contains(t, m["message"], "email is missing")
	require.EqualValues(t, initialCredits-3, w.get("/v1/credits", w.key).json(t)["balance"])

	status, _, _ = call("zerobounce/v2/validate", w.key, nil) // not switched on
	require.Equal(t, 404, status)
	off := newTestServer(t, nil)
	require.Equal(t, 404, off.get("/compat/kickbox/v2/balance", off.key).status)
}
