package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// selfSigned is a certificate for 127.0.0.1, and the pool that trusts it.
func selfSigned(t *testing.T) (*tls.Config, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

// TestTLS: the same server with TLS. A client without TLS, or that never ends its handshake, takes one connection until
// the header timeout; a client over the limit of connections does not delay others.
func TestTLS(t *testing.T) {
	config, pool := selfSigned(t)
	w := newTestServer(t, func(c *Config) { c.TLS, c.MaxConnsPerIP, c.HeaderTimeout = config, 2, 200*time.Millisecond })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	get := func(path string) *http.Response {
		res, err := client.Get("https://" + w.addr + path)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, res.Body) // else the connection is not used again
		require.NoError(t, errors.Join(err, res.Body.Close()))
		return res
	}
	res := get("/v1/reasons")
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "max-age=31536000", res.Header.Get("Strict-Transport-Security"))

	silent, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer silent.Close()
	over, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer over.Close()
	_, err = over.Read(make([]byte, 1))
	require.Error(t, err, "it is one too many, and is let go of without a word")
	require.Equal(t, 200, get("/v1/reasons").StatusCode, "who is in stays in")
	_, err = silent.Read(make([]byte, 1))
	require.Error(t, err, "a handshake that does not come ends like a header that does not come")

	plain, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer plain.Close()
	_, err = plain.Write([]byte("GET /v1/reasons HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	b := make([]byte, 64)
	n, _ := plain.Read(b)
	require.NotContains(t, string(b[:n]), "HTTP/1.1 200", "nothing is answered in clear")
}

// TestEveryAnswerIsHardened: every route has the security headers, in answers and in refusals.
func TestEveryAnswerIsHardened(t *testing.T) {
	for name, public := range map[string]string{"in clear": "", "behind TLS": "https://probity.test"} {
		t.Run(name, func(t *testing.T) {
			w := newTestServer(t, func(c *Config) { c.PublicURL = public })
			for _, r := range w.server.routeTable {
				path := strings.NewReplacer("{job_id}", "x", "{user}", "x", "{key_id}", "x", "{session_id}", "x",
					"{page}", "x", "{item}", "x", "{file}", "x").Replace(r.Path)
				got := w.do(request{method: r.Method, path: path})
				require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"), path)
				require.NotEmpty(t, got.header.Get("Cache-Control"), path)
				require.Equal(t, public != "", got.header.Get("Strict-Transport-Security") != "", path)
				if strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
					policy := got.header.Get("Content-Security-Policy")
					for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'",
						"form-action "} {
						require.Contains(t, policy, want, path)
					}
					if r.Path == "/docs" {
						// The renderer of the reference sets styles on its elements. The page shows nothing that anyone
						// typed and no user's data: a style has nothing to disclose. Scripts stay as strict.
						require.Contains(t, policy, "script-src 'self';", path)
						policy = strings.Replace(policy, "style-src 'self' 'unsafe-inline';", "", 1)
					}
					require.NotContains(t, policy, "unsafe", path)
				}
			}
		})
	}
}

// TestSignInPreventsSessionFixation: a token that an attacker set in a browser before its user signed in is not valid
// after it, and each sign-in makes a new token.
func TestSignInPreventsSessionFixation(t *testing.T) {
	w := newTestServer(t, nil)
	victim := w.signIn("cleo@probity.test", store.Customer)
	planted := "probity=" + strings.Repeat("A", 43)
	body := `{"email":"cleo@probity.test","password":"` + password + `"}`
	r := w.do(request{method: "POST", path: "/v1/dash/login",
		header: map[string]string{"Content-Type": "application/json", "Cookie": planted},
		body:   strings.NewReader(body)})
	require.Equal(t, 200, r.status)
	given, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	require.NotEqual(t, planted, given)
	require.NotEqual(t, victim.cookie, given)
	require.Equal(t, 401, w.do(request{method: "GET", path: "/v1/dash/session",
		header: map[string]string{"Cookie": planted}}).status)
	r = w.do(request{method: "POST", path: "/v1/dash/login",
		header: map[string]string{"Content-Type": "application/json", "Cookie": victim.cookie},
		body:   strings.NewReader(body)})
	again, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	require.NotEqual(t, victim.cookie, again, "signing in twice gives two tokens")
}

// TestAudit: admins can read what an admin did: who, what, when, and from where.
func TestAudit(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("dana@probity.test", store.Admin)
	require.Equal(t, 200, w.do(request{method: "POST", path: "/v1/admin/users/ann@probity.test/disable",
		key: w.adminKey}).status)
	require.Equal(t, 200, b.do("POST", "/v1/admin/users/ann@probity.test/enable", "").status)
	w.signIn("eve@probity.test", store.Customer)
	page := w.get("/v1/admin/audit?limit=4", w.adminKey)
	require.Equal(t, 200, page.status, "%s", page.body)
	events := page.json(t)["acts"].([]any)
	require.Len(t, events, 4)
	for i, want := range [][]any{{"test", "", "user add"}, {"dana@probity.test", "127.0.0.1", "user enable"},
		{"root@probity.test", "127.0.0.1", "user disable"},
		{"dana@probity.test", "127.0.0.1", "sign in"}} {
		action := events[i].(map[string]any)
		require.Equal(t, want, []any{action["by"], action["from"], action["action"]}, i)
		require.NotEmpty(t, action["at"])
	}
	older := w.get("/v1/admin/audit?limit=1&cursor="+page.json(t)["next_cursor"].(string),
		w.adminKey).json(t)["acts"].([]any)
	require.Equal(t, "user add", older[0].(map[string]any)["action"])
	require.Equal(t, "ann@probity.test", events[1].(map[string]any)["about"])
	require.Equal(t, []string{"user enable", "sign in"}, w.auditActions("by=DANA@"))
	require.Equal(t, []string{"user disable"}, w.auditActions("by=root@&action=user+disable&limit=1"))
	require.Empty(t, w.auditActions("by=nobody"))
	require.Equal(t, 422, w.get("/v1/admin/audit?cursor=zzz", w.adminKey).status)
	require.Equal(t, 403, w.get("/v1/admin/audit", w.key).status)
}

// auditActions are the actions of the audit events that a filter finds.
func (w *testServer) auditActions(query string) []string {
	words := []string{}
	for _, a := range w.get("/v1/admin/audit?"+query, w.adminKey).json(w.t)["acts"].([]any) {
		words = append(words, a.(map[string]any)["action"].(string))
	}
	return words
}
