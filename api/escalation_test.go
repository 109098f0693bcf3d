package api

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// TestLimitedAdminKeyMakesNothingBeyondItself tries every admin route with an admin's key that has networks and an end.
// What would outlive it, or reach further, is refused; and at the end there is nothing that does.
func TestLimitedAdminKeyMakesNothingBeyondItself(t *testing.T) {
	w := newTestServer(t, nil)
	networks, err := store.ParseNetworks([]string{"127.0.0.0/8"})
	require.NoError(t, err)
	ends := w.server.now().Add(10 * time.Minute).UTC().Truncate(time.Second)
	limited := w.newKey(w.admin.ID, store.NewKey{Scopes: store.ScopeAdmin, Networks: networks, Expires: ends})
	former, _, err := w.store.AddUser(t.Context(), store.NewUser{Email: "former@probity.test", Role: store.Admin},
		"test", w.server.now())
	require.NoError(t, err)
	require.NoError(t, w.store.DisableUser(former.ID, "test", w.server.now()))
	before, err := w.store.Keys("")
	require.NoError(t, err)

	const person = "sign in to the dashboard as an admin"
	tried := map[string]bool{}
	for _, try := range []struct {
		route, body string
		status      int
		words       string
	}{
		{"GET /v1/admin/users", "", 200, ""},
		{"POST /v1/admin/users", `{"email":"boss@probity.test","role":"admin"}`, 403, person},
		{"POST /v1/admin/users", `{"email":"shop@probity.test"}`, 201, ""},
		{"POST /v1/admin/users/{user}/disable", "ann@probity.test", 200, ""},
		{"POST /v1/admin/users/{user}/enable", "ann@probity.test", 200, ""},
		{"POST /v1/admin/users/{user}/enable", "former@probity.test", 403, person},
		{"PUT /v1/admin/users/{user}/limits", `{}`, 200, ""},
		{"POST /v1/admin/users/{user}/reset", "ann@probity.test", 403, person},
		{"POST /v1/admin/users/{user}/totp-off", "ann@probity.test", 403, person},
		{"POST /v1/admin/users/{user}/callback-secret", "ann@probity.test", 403, person},
		{"DELETE /v1/admin/users/{user}/callback-secret", "ann@probity.test", 204, ""},
		{"POST /v1/admin/receipt-keys", "", 403, person},
		{"GET /v1/admin/keys", "", 200, ""},
		{"POST /v1/admin/keys", `{"user":"root@probity.test","name":"k","scopes":["admin"]}`, 403, person},
		{"POST /v1/admin/keys", `{"user":"root@probity.test","name":"k","scopes":["verify","admin"],"networks":["127.0.0.1"]}`, 403, person},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"silent"}`, 201, ""},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"narrower","networks":["127.0.0.0/16","127.9.9.9"]}`,
			201, ""},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"k","networks":["127.0.0.1","0.0.0.0/0"]}`, 403,
			"0.0.0.0/0"},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"k","networks":["::/0"]}`, 403, "::/0"},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"k","networks":["126.0.0.0/7"]}`, 403,
			"126.0.0.0/7"},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"k","networks":[]}`, 422, "networks is empty"},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"k","expires_at":"` +
			ends.Add(time.Second).Format(time.RFC3339) + `"}`, 403, "end no later"},
		{"POST /v1/admin/keys", `{"user":"ann@probity.test","name":"sooner","expires_at":"` +
			ends.Add(-time.Minute).Format(time.RFC3339) + `"}`, 201, ""},
		{"DELETE /v1/admin/keys/{key_id}", "k_none", 404, ""},
		{"GET /v1/admin/credits", "", 422, ""},
		{"POST /v1/admin/credits", `{"user":"ann@probity.test","amount":1}`, 200, ""},
		{"GET /v1/admin/ledger", "", 422, ""},
		{"GET /v1/admin/suppressions", "", 200, ""},
		{"POST /v1/admin/suppressions", `{"name":"example.org"}`, 201, ""},
		{"DELETE /v1/admin/suppressions", "", 422, ""},
		{"POST /v1/admin/erase", `{"address":"gone@example.org"}`, 200, ""},
		{"GET /v1/admin/erasures", "", 200, ""},
		{"GET /v1/admin/erasures/{erasure_id}", "e_none", 404, ""},
		{"POST /v1/admin/backup", "", 200, ""},
		{"GET /v1/admin/audit", "", 200, ""},
		{"GET /v1/admin/cluster", "", 0, ""},
	} {
		tried[try.route] = true
		method, path, _ := strings.Cut(try.route, " ")
		name := "ann@probity.test"
		if !strings.HasPrefix(try.body, "{") {
			name, try.body = try.body, ""
		}
		path = strings.NewReplacer("{user}", name, "{key_id}", name, "{erasure_id}", name).Replace(path)
		r := request{method: method, path: path, key: limited}
		if try.body != "" {
			r.body, r.header = strings.NewReader(try.body), map[string]string{"Content-Type": "application/json"}
		}
		got := w.do(r)
		if try.status != 0 {
			require.Equal(t, try.status, got.status, "%s %s: %s", try.route, try.body, got.body)
		}
		if try.words != "" {
			require.Contains(t, got.detail(t), try.words, "%s %s", try.route, try.body)
		}
	}
	for _, r := range w.server.adminRoutes() {
		require.True(t, tried[r.Method+" "+r.Path], "%s %s: what may a limited key do there?", r.Method, r.Path)
	}

	after, err := w.store.Keys("")
	require.NoError(t, err)
	made := map[string][]netip.Prefix{}
	old := map[string]bool{}
	for _, k := range before {
		old[k.ID] = true
	}
	for _, k := range after {
		if old[k.ID] {
			continue
		}
		made[k.Name] = k.Networks
		require.Zero(t, k.Scopes&store.ScopeAdmin, k.Name)
		require.False(t, k.Expires.IsZero() || k.Expires.After(ends), "%s ends at %s", k.Name, k.Expires)
	}
	require.Equal(t, map[string][]netip.Prefix{"silent": networks, "sooner": networks,
		"narrower": {netip.MustParsePrefix("127.0.0.0/16"), netip.MustParsePrefix("127.9.9.9/32")}}, made)
	for _, u := range w.store.Users() {
		require.Equal(t, u.ID == w.admin.ID, u.IsActiveAdmin(), u.Email)
	}
}

// TestSessionMakesWhatAKeyMayNot: an admin who is signed in does what the refusals of keys point to.
func TestSessionMakesWhatAKeyMayNot(t *testing.T) {
	w := newTestServer(t, nil)
	root := w.rootSession()
	require.Equal(t, 201, root.do("POST", "/v1/admin/users", `{"email":"boss@probity.test","role":"admin"}`).status)
	require.Equal(t, 200, root.do("POST", "/v1/admin/users/boss@probity.test/disable", "").status)
	require.Equal(t, 200, root.do("POST", "/v1/admin/users/boss@probity.test/enable", "").status)
	require.Equal(t, 201, root.do("POST", "/v1/admin/users/boss@probity.test/reset", "").status)
	r := root.do("POST", "/v1/admin/keys", `{"user":"boss@probity.test","name":"ops","scopes":["admin"]}`)
	require.Equal(t, 201, r.status)
	var key struct {
		Key     string
		Expires any `json:"expires_at"`
	}
	require.NoError(t, json.Unmarshal(r.body, &key))
	require.Nil(t, key.Expires)
	require.Equal(t, 200, w.get("/v1/admin/users", key.Key).status)
}
