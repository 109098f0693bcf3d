package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func (w *testServer) newKey(account string, n store.NewKey) string {
	n.Name = "narrow"
	key, _, err := w.store.CreateKey(account, n, "test", w.server.now())
	require.NoError(w.t, err)
	return key
}

// TestKeysOpenOnlyTheirScopes calls every route that accepts keys with a key of each scope.
func TestKeysOpenOnlyTheirScopes(t *testing.T) {
	w := newTestServer(t, nil)
	keys := map[store.Scopes]string{}
	for _, scope := range []store.Scopes{store.ScopeVerify, store.ScopeJobs, store.ScopeAccount, store.ScopeAdmin} {
		keys[scope] = w.newKey(w.admin.ID, store.NewKey{Scopes: scope})
	}
	asked := 0
	for _, r := range w.server.routeTable {
		if r.access != keyOrSession && r.access != keyOrSignature && r.access != adminKey {
			require.Zero(t, r.scopes, "%s %s takes no key", r.Method, r.Path)
			continue
		}
		require.NotZero(t, r.scopes, "%s %s is opened by no key: name its scopes", r.Method, r.Path)
		if r.access == adminKey {
			require.Equal(t, store.ScopeAdmin, r.scopes, "%s %s", r.Method, r.Path)
		}
		path := strings.NewReplacer("{user}", "x", "{job_id}", "x", "{key_id}", "x").Replace(r.Path)
		for scope, key := range keys {
			got := w.do(request{method: r.Method, path: path, key: key})
			require.Equal(t, r.scopes&scope == 0, got.status == 403, "%s %s with a key of %s: %d", r.Method, r.Path,
				scope.Names(), got.status)
			asked++
		}
	}
	require.Greater(t, asked, 100)
}

func TestAdminAccountKeyNeedsAdminScope(t *testing.T) {
	w := newTestServer(t, nil)
	made := w.post("/v1/admin/keys", w.adminKey, `{"user":"root@probity.test","name":"shop"}`).json(t)
	require.Equal(t, []any{"verify", "jobs"}, made["scopes"])
	require.Nil(t, made["expires_at"])
	require.Equal(t, []any{}, made["networks"])
	got := w.do(request{method: "POST", path: "/v1/admin/backup", key: made["key"].(string)})
	require.Equal(t, 403, got.status)
	require.Contains(t, got.detail(t), "scope admin")
	require.Equal(t, 200, w.get("/v1/verify/bulk", made["key"].(string)).status)
}

func TestNewKeyHasRequestedRestrictions(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	soon := w.server.now().Add(time.Hour).UTC().Truncate(time.Second)
	body, err := json.Marshal(map[string]any{"name": "shop", "scopes": []string{"jobs"}, "expires_at": soon,
		"networks": []string{"127.0.0.0/8", "2001:db8::/48"}})
	require.NoError(t, err)
	made := b.do("POST", "/v1/dash/keys", string(body))
	require.Equal(t, 201, made.status, "%s", made.body)
	k := made.json(t)
	require.Equal(t, []any{"jobs"}, k["scopes"])
	require.Equal(t, soon.Format(time.RFC3339), k["expires_at"])
	require.Equal(t, []any{"127.0.0.0/8", "2001:db8::/48"}, k["networks"])
	secret := k["key"].(string)
	require.Equal(t, 200, w.get("/v1/verify/bulk", secret).status)
	require.Equal(t, 403, w.post("/v1/verify/single", secret, `{"email":"ann@shop.test"}`).status)
	w.clockOffset.Store(int64(time.Hour))
	late := w.get("/v1/verify/bulk", secret)
	require.Equal(t, 401, late.status)
	require.Contains(t, late.detail(t), "expired")

	root := w.signIn("dora@probity.test", store.Admin)
	require.Equal(t, 201, root.do("POST", "/v1/dash/keys", `{"name":"ops","scopes":["admin"]}`).status)
	for _, body := range []string{`{"name":"x","scopes":["admin"]}`, `{"name":"x","scopes":"jobs"}`,
		`{"name":"x","scopes":[1]}`, `{"name":"x","scopes":["all"]}`, `{"name":"x","scopes":[]}`,
		`{"name":"x","networks":["10.0.0.1/8"]}`,
		`{"name":"x","expires_at":"tomorrow"}`, `{"name":"x","expires_at":"2001-01-01T00:00:00Z"}`,
		`{"name":"x","networks":["shop.test"]}`, `{"name":"x","networks":"10.0.0.0/8"}`} {
		r := b.do("POST", "/v1/dash/keys", body)
		require.Equal(t, 422, r.status, body)
		require.Regexp(t, "scopes|expires_at|networks", r.detail(t), body)
	}
}

func TestKeyIsLimitedToItsNetworks(t *testing.T) {
	w := newTestServer(t, nil)
	nets, err := store.ParseNetworks([]string{"192.0.2.0/24"})
	require.NoError(t, err)
	r := w.get("/v1/verify/bulk", w.newKey(w.user.ID, store.NewKey{Networks: nets}))
	require.Equal(t, 403, r.status)
	require.Contains(t, r.detail(t), "127.0.0.1")
}

// TestUnknownMembersAreRefused: a restriction must not be ignored.
func TestUnknownMembersAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("dora@probity.test", store.Admin)
	for _, c := range []struct{ what, body string }{
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"x","read_only":true}`},
		{"POST /v1/dash/keys", `{"name":"x","read_only":true}`},
		{"POST /v1/admin/users", `{"email":"zoe@probity.test","read_only":true}`},
		{"POST /v1/admin/users", `{"email":"zoe@probity.test","limits":{"read_only":1}}`},
		{"PUT /v1/admin/users/ann@probity.test/limits", `{"read_only":1}`},
		{"POST /v1/dash/login", `{"email":"dora@probity.test","password":"` + password + `","read_only":true}`},
		{"PUT /v1/dash/password", `{"current":"` + password + `","password":"another password","read_only":true}`},
		{"POST /v1/dash/callbacks/test", `{"url":"http://127.0.0.1/","read_only":true}`},
	} {
		method, path, _ := strings.Cut(c.what, " ")
		r := b.do(method, path, c.body)
		require.Equal(t, 422, r.status, "%s: %s", c.what, r.body)
		require.Contains(t, r.detail(t), "read_only", c.what)
	}
}
