package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// resetLink makes a link for an account and returns its token.
func (w *testServer) resetLink(email string) string {
	r := w.rootSession().do("POST", "/v1/admin/users/"+email+"/reset", "")
	require.Equal(w.t, 201, r.status, "%s", r.body)
	path, token, ok := strings.Cut(r.json(w.t)["url"].(string), "#")
	require.True(w.t, ok)
	require.Equal(w.t, "/app/reset", path)
	return token
}

// rootSession is a session of the first admin.
func (w *testServer) rootSession() *browser {
	token, _, err := w.store.CreateSession(w.admin.ID, "test", sessionTime, w.server.now())
	require.NoError(w.t, err)
	return &browser{w, plainCookie + "=" + token, store.CSRFToken(token)}
}

func (w *testServer) reset(token, password string) reply {
	return w.post("/v1/dash/reset", "", `{"token":"`+token+`","password":"`+password+`"}`)
}

func TestResetLinkWorksOnceAndEndsSessions(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	for range 5 {
		require.Equal(t, 401, w.logIn("cleo@probity.test", "forgotten forgotten").status)
	}
	require.Equal(t, 429, w.logIn("cleo@probity.test", password).status)
	token := w.resetLink("cleo@probity.test")
	require.Equal(t, 200, b.get("/v1/dash/session").status, "to make a link ends nothing")

	short := w.reset(token, "short")
	require.Equal(t, 422, short.status, "and the link is still good")
	require.Contains(t, short.detail(t), "send a password of 10 to 256 bytes.")
	require.Equal(t, 204, w.reset(token, "a new pass phrase").status)
	require.Equal(t, 401, b.get("/v1/dash/session").status)
	require.Equal(t, 410, w.reset(token, "yet another phrase").status)
	require.Equal(t, 401, w.logIn("cleo@probity.test", password).status)
	require.Equal(t, 200, w.logIn("cleo@probity.test", "a new pass phrase").status, "the lock-out is lifted")
	require.Equal(t, []string{"reset link"}, w.auditActions("by=root@"))
}

func TestInvalidResetLinksAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	cleo := w.signIn("cleo@probity.test", store.Customer)
	old := w.resetLink("cleo@probity.test")
	token := w.resetLink("cleo@probity.test")
	for _, bad := range []string{old, "", ".", "x", token + "x", strings.ToUpper(token),
		w.user.ID + token[strings.Index(token, "."):]} {
		require.Equal(t, 410, w.reset(bad, "a new pass phrase").status, bad)
	}
	require.Equal(t, 422, w.post("/v1/dash/reset", "",
		`{"token":"`+token+`","password":"a new pass phrase","email":"x"}`).status)
	require.Equal(t, 204, cleo.do("PUT", "/v1/dash/password",
		`{"current":"`+password+`","password":"a new pass phrase"}`).status)
	require.Equal(t, 410, w.reset(token, "yet another phrase").status, "a new password makes older links void")

	token = w.resetLink("cleo@probity.test")
	w.clockOffset.Store(int64(time.Hour))
	require.Equal(t, 410, w.reset(token, "yet another phrase").status, "after an hour")
	require.Equal(t, 403, w.do(request{method: "POST", path: "/v1/admin/users/cleo@probity.test/reset",
		key: w.key}).status)
	require.Equal(t, 404, w.rootSession().do("POST", "/v1/admin/users/nobody/reset", "").status)
	require.NotContains(t, w.log.String(), token)
}

// TestResetLinkDiesWithItsAccount: what was made before an account was disabled is void when it is enabled again.
func TestResetLinkDiesWithItsAccount(t *testing.T) {
	w := newTestServer(t, nil)
	w.signIn("cleo@probity.test", store.Customer)
	token := w.resetLink("cleo@probity.test")
	path := "/v1/admin/users/cleo@probity.test/"
	require.Equal(t, 200, w.post(path+"disable", w.adminKey, "").status)
	require.Equal(t, 410, w.reset(token, "a new pass phrase").status)
	refused := w.rootSession().do("POST", path+"reset", "")
	require.Equal(t, 409, refused.status)
	require.Equal(t, "The account is disabled: an admin must enable it first.", refused.detail(t))
	require.Equal(t, 200, w.post(path+"enable", w.adminKey, "").status)
	require.Equal(t, 410, w.reset(token, "a new pass phrase").status)
	require.Equal(t, 204, w.reset(w.resetLink("cleo@probity.test"), "a new pass phrase").status)
}
