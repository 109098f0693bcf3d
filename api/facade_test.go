package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
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
	w := newTestServer(t, func(c *Config) { c.Front = facades })
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

	// an address that is not a string
	status, _, m = call("kickbox/v2/verify", w.key, strings.NewReader(`{"email":12}`))
	require.Equal(t, 422, status, m)
	require.Contains(t, m["message"], "email must be a string")
	_, _, m = call("neverbounce/v4/single/check", w.key, strings.NewReader(`{"email":true}`))
	require.Equal(t, "general_failure", m["status"], m)
	require.EqualValues(t, initialCredits-3, w.get("/v1/credits", w.key).json(t)["balance"])

	status, _, _ = call("zerobounce/v2/validate", w.key, nil) // not switched on
	require.Equal(t, 404, status)
	off := newTestServer(t, nil)
	require.Equal(t, 404, off.get("/compat/kickbox/v2/balance", off.key).status)
}

// TestFacadesWithExpectContinue sends requests whose body waits for the server's word, with the key in the header and
// in the body.
func TestFacadesWithExpectContinue(t *testing.T) {
	facades, err := facade.New([]string{"kickbox", "neverbounce"})
	require.NoError(t, err)
	w := newTestServer(t, func(c *Config) { c.Front = facades })
	for _, c := range []struct{ path, key, body, want string }{
		{"kickbox/v2/verify", w.key, `{"email":"jane@gmail.com"}`, `"deliverable"`},
		{"neverbounce/v4.2/single/check", "", `{"key":"` + w.key + `","email":"jane@gmail.com"}`, `"valid"`},
		{"neverbounce/v4.2/single/check", "", `{"key":"wrong","email":"jane@gmail.com"}`, `"auth_failure"`},
		{"kickbox/v2/verify", w.key, strings.Repeat(" ", 1<<17), "over 65536 bytes"},
	} {
		conn, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		fmt.Fprintf(conn, "POST %s%s HTTP/1.1\r\nHost: x\r\nAuthorization: token %s\r\n"+
			"Expect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
			facade.Prefix, c.path, c.key, len(c.body))
		r := bufio.NewReader(conn)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, c.path)
		_, err = r.ReadString('\n')
		require.NoError(t, err)
		_, err = io.WriteString(conn, c.body)
		require.NoError(t, err)
		res, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), c.want)
		require.NoError(t, conn.Close())
	}
	require.EqualValues(t, initialCredits-2, w.get("/v1/credits", w.key).json(t)["balance"])
}
