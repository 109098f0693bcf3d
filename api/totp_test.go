package api

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// authenticator is an authenticator app, which has only what the URL says.
type authenticator struct {
	w      *testServer
	secret []byte
}

func (w *testServer) newAuthenticator(link string) authenticator {
	u, err := url.Parse(link)
	require.NoError(w.t, err)
	require.Equal(w.t, "otpauth://totp", u.Scheme+"://"+u.Host)
	require.Equal(w.t, "/Probity:cleo@probity.test", u.Path)
	require.Equal(w.t, "Probity", u.Query().Get("issuer"))
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(u.Query().Get("secret"))
	require.NoError(w.t, err)
	return authenticator{w, secret}
}

// nextCode advances the clock by 30 seconds and returns the code that the app then shows.
func (a authenticator) nextCode() string {
	a.w.clockOffset.Add(int64(30 * time.Second))
	mac := hmac.New(sha1.New, a.secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(a.w.server.now().Unix()/30)))
	sum := mac.Sum(nil)
	part := sum[sum[19]&15:]
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(part)&(1<<31-1)%1_000_000)
}

// withTOTP makes an account that needs codes, and returns a session, its app and its recovery codes.
func (w *testServer) withTOTP() (b *browser, a authenticator, recovery []string) {
	b = w.signIn("cleo@probity.test", store.Customer)
	made := b.do("POST", "/v1/dash/totp", `{"password":"`+password+`"}`)
	require.Equal(w.t, 201, made.status, "%s", made.body)
	a = w.newAuthenticator(made.json(w.t)["url"].(string))
	require.Equal(w.t, 200, w.logIn("cleo@probity.test", password).status, "it is not on before its first code")
	on := b.do("POST", "/v1/dash/totp/on", `{"code":"`+a.nextCode()+`"}`)
	require.Equal(w.t, 200, on.status, "%s", on.body)
	for _, code := range on.json(w.t)["recovery_codes"].([]any) {
		recovery = append(recovery, code.(string))
	}
	require.Len(w.t, recovery, 10)
	return b, a, recovery
}

func (w *testServer) logInWithCode(password, code string) reply {
	body, err := json.Marshal(map[string]string{"email": "cleo@probity.test", "password": password, "code": code})
	require.NoError(w.t, err)
	return w.post("/v1/dash/login", "", string(body))
}

func TestSignInNeedsCodeWithTOTP(t *testing.T) {
	w := newTestServer(t, nil)
	_, a, recovery := w.withTOTP()
	wrong := w.logInWithCode("a wrong password", a.nextCode())
	require.Equal(t, []any{401, "Bearer"}, []any{wrong.status, wrong.header.Get("WWW-Authenticate")})
	require.NotContains(t, wrong.detail(t), "code", "no stranger is told what an account asks for")

	asked := w.logIn("cleo@probity.test", password)
	require.Equal(t, []any{401, "TOTP"}, []any{asked.status, asked.header.Get("WWW-Authenticate")})
	require.Contains(t, asked.detail(t), "code")
	require.Empty(t, asked.header.Get("Set-Cookie"))

	code := a.nextCode()
	require.Equal(t, 200, w.logInWithCode(password, code).status)
	again := w.logInWithCode(password, code)
	require.Equal(t, []any{401, "TOTP"}, []any{again.status, again.header.Get("WWW-Authenticate")},
		"a code is good once")
	require.Equal(t, 200, w.logInWithCode(password, recovery[3]).status)
	require.Equal(t, 401, w.logInWithCode(password, recovery[3]).status)
	require.Equal(t, []string{"recovery code", "totp on"}, w.auditActions("by=cleo@"))
	for _, secret := range append(recovery, code, string(a.secret)) {
		require.NotContains(t, w.log.String(), secret)
	}
}

func TestWrongCodesCountTowardLockout(t *testing.T) {
	w := newTestServer(t, nil)
	_, a, _ := w.withTOTP()
	for range 5 {
		require.Equal(t, 401, w.logInWithCode(password, "12345x").status)
	}
	locked := w.logInWithCode(password, a.nextCode())
	require.Equal(t, 429, locked.status)
	require.NotEmpty(t, locked.header.Get("Retry-After"))
	require.Contains(t, locked.detail(t), "for this address")
	w.clockOffset.Add(int64(15 * time.Minute))
	require.Equal(t, 200, w.logInWithCode(password, a.nextCode()).status)
}

// TestCodeLockoutNamesTheAccount: wrong codes from several networks lock the account for every network.
func TestCodeLockoutNamesTheAccount(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	w.withTOTP()
	try := func(network int) reply {
		return w.do(request{method: "POST", path: "/v1/dash/login",
			body: strings.NewReader(`{"email":"cleo@probity.test","password":"` + password + `","code":"12345x"}`),
			header: map[string]string{"Content-Type": "application/json",
				"X-Forwarded-For": fmt.Sprintf("203.0.%d.1", network)}})
	}
	for network := range 5 {
		require.Equal(t, 401, try(network).status)
	}
	locked := try(5)
	require.Equal(t, 429, locked.status)
	require.Contains(t, locked.detail(t), "for this account")
}

func TestSwitchingTOTPEndsOtherSessions(t *testing.T) {
	w := newTestServer(t, nil)
	otherAccount := w.signIn("bo@probity.test", store.Customer) // of another account: stays
	b, a, recovery := w.withTOTP()
	require.Equal(t, map[string]any{"on": true, "recovery_codes_left": 10.0}, b.get("/v1/dash/totp").json(t))
	require.Equal(t, true, b.get("/v1/dash/session").json(t)["user"].(map[string]any)["totp"])
	require.Len(t, b.get("/v1/dash/sessions").json(t)["sessions"], 1, "the one that withTOTP opened before has ended")
	require.Equal(t, 200, otherAccount.get("/v1/dash/session").status)

	r := w.logInWithCode(password, a.nextCode())
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	other := &browser{w, cookie, r.json(t)["csrf_token"].(string)}
	require.Equal(t, 409, b.do("POST", "/v1/dash/totp", `{"password":"`+password+`"}`).status)
	require.Equal(t, 409, b.do("POST", "/v1/dash/totp/on", `{"code":"`+a.nextCode()+`"}`).status)
	for _, bad := range []string{`{"password":"` + password + `"}`, `{"password":"` + password + `","code":"12345x"}`,
		`{"password":"wrong","code":"` + a.nextCode() + `"}`,
		`{"password":"` + password + `","code":""}`} {
		require.Equal(t, 422, b.do("POST", "/v1/dash/totp/off", bad).status, bad)
	}
	require.Equal(t, 200, other.get("/v1/dash/session").status)
	require.Equal(t, 204, b.do("POST", "/v1/dash/totp/off",
		`{"password":"`+password+`","code":"`+recovery[0]+`"}`).status)
	require.Equal(t, 200, b.get("/v1/dash/session").status)
	require.Equal(t, 401, other.get("/v1/dash/session").status)
	require.Equal(t, map[string]any{"on": false, "recovery_codes_left": 0.0}, b.get("/v1/dash/totp").json(t))
	r = w.logIn("cleo@probity.test", password)
	require.Equal(t, 200, r.status)

	cookie, _, _ = strings.Cut(r.header.Get("Set-Cookie"), ";")
	other.cookie, other.csrf = cookie, r.json(t)["csrf_token"].(string)
	idle := b.do("POST", "/v1/dash/totp/off", `{"password":"`+password+`","code":"123456"}`)
	require.Equal(t, 409, idle.status, "it is off: %s", idle.body)
	require.Equal(t, "TOTP is off for this account: nothing needs to be switched off.", idle.detail(t))
	require.Equal(t, 200, other.get("/v1/dash/session").status)
	require.Len(t, w.auditActions("action=totp+off"), 1)
}

func TestTOTPNeedsPasswordAndFirstCode(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	require.Equal(t, 409, b.do("POST", "/v1/dash/totp/on", `{"code":"123456"}`).status)
	require.Equal(t, 422, b.do("POST", "/v1/dash/totp", `{"password":"a wrong password"}`).status)
	require.Equal(t, 422, b.do("POST", "/v1/dash/totp", `{"password":"`+password+`","secret":"AAAA"}`).status)
	require.Equal(t, 201, b.do("POST", "/v1/dash/totp", `{"password":"`+password+`"}`).status)
	require.Equal(t, 422, b.do("POST", "/v1/dash/totp/on", `{"code":"12345x"}`).status)
	require.Equal(t, 200, w.logIn("cleo@probity.test", password).status)
	require.Equal(t, 401, w.get("/v1/dash/totp", w.key).status, "a key is no session")
}

func TestResetLinkKeepsTOTPAndAdminDisablesIt(t *testing.T) {
	w := newTestServer(t, nil)
	_, a, _ := w.withTOTP()
	require.Equal(t, 204, w.reset(w.resetLink("cleo@probity.test"), "a new pass phrase").status)
	require.Equal(t, 401, w.logInWithCode("a new pass phrase", "").status)
	r := w.logInWithCode("a new pass phrase", a.nextCode())
	require.Equal(t, 200, r.status)
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	b := &browser{w, cookie, r.json(t)["csrf_token"].(string)}

	off := request{method: "POST", path: "/v1/admin/users/cleo@probity.test/totp-off", key: w.key}
	require.Equal(t, 403, w.do(off).status)
	off.key = w.adminKey
	require.Contains(t, w.do(off).detail(t), "sign in to the dashboard", "nor an admin's key")
	root := w.rootSession()
	done := root.do(off.method, off.path, "")
	require.Equal(t, 200, done.status)
	require.Equal(t, false, done.json(t)["totp"])
	require.Equal(t, 401, b.get("/v1/dash/session").status, "all sessions end")
	require.Equal(t, 200, w.logIn("cleo@probity.test", "a new pass phrase").status)
	require.Equal(t, []string{"totp off", "reset link"}, w.auditActions("by=root@"))
	require.Equal(t, 404, root.do("POST", "/v1/admin/users/nobody/totp-off", "").status)
}
