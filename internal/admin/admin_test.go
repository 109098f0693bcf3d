package admin

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/api"
	"probity/api/record"
	"probity/coordinator"
	"probity/coordinator/ingest"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/console"
	"probity/internal/detector"
	"probity/store"
	"probity/store/cache"
)

// adminTest is a store, stopped or behind a server, and the command line that works on it.
type adminTest struct {
	t          *testing.T
	data       string
	targetArgs []string // the flags that name the store or the server
}

// run runs a command, requires its exit status, and returns its output.
func (w *adminTest) run(status int, args ...string) (out, words string) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	got := runProgram(w.t.Context(), append(args, w.targetArgs...), &console.IO{Out: &stdout, Err: &stderr})
	require.Equal(w.t, status, got, "%v: %s", args, stderr.String())
	return stdout.String(), stderr.String()
}

// runProgram runs a command as the program does: 0 is done, 1 failed, 2 wrong usage.
func runProgram(ctx context.Context, args []string, con *console.IO) int {
	var c struct{ Commands }
	parser, err := kong.New(&c, kong.DefaultEnvars("PROBITY"), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(con))
	if err != nil {
		panic(err)
	}
	parsed, err := parser.Parse(args)
	status := 2
	if err == nil {
		err, status = parsed.Run(), 1
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(con.Err, err)
	if errors.Is(err, console.ErrUsage) {
		return 2
	}
	return status
}

// rows runs a command with --json and reads what it prints.
func (w *adminTest) rows(args ...string) (rows []map[string]any) {
	w.t.Helper()
	out, _ := w.run(0, append(args, "--json")...)
	for line := range strings.Lines(out) {
		var row map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// A store whose only accounts are customers never gets an admin from serve: the command says so.
func TestUserAddWarnsWithoutAnAdmin(t *testing.T) {
	w := &adminTest{t: t, data: t.TempDir()}
	w.targetArgs = []string{"--data", w.data}
	for _, more := range [][]string{nil, {"--json"}} {
		_, words := w.run(0, append([]string{"user", "add", fmt.Sprintf("ann%d@example.com", len(more))}, more...)...)
		require.Contains(t, words, "warning: no account is an admin")
	}
	_, words := w.run(0, "user", "add", "root@example.com", "--role", "admin")
	require.NotContains(t, words, "warning")
	_, words = w.run(0, "user", "add", "cy@example.com")
	require.NotContains(t, words, "warning")
	_, words = w.run(1, "user", "disable", "root@example.com")
	require.Contains(t, words, "This is the last active admin: add or enable another one first.")
	require.Equal(t, false, w.rows("user", "enable", "root@example.com")[0]["disabled"])
}

// sampleList is a list that names the address that is erased.
const sampleList = "email\ngone@shop.example\nkept@shop.example\n"

// newAdminTest makes a store with an admin, a waiting job, and a cached verdict.
func newAdminTest(t *testing.T) (w *adminTest, key string) {
	w = &adminTest{t: t, data: t.TempDir()}
	w.targetArgs = []string{"--data", w.data}
	_, words := w.run(0, "user", "add", "root@example.com", "--role", "admin")
	require.Contains(t, words, "shown this once")
	key, _ = w.run(0, "key", "create", "--user", "root@example.com", "--name", "admin", "--scope", "admin")
	c, s, k := openStores(t, w.data)
	_, err := c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(sampleList)})
	require.NoError(t, err)
	a, err := engine.Parse("gone@shop.example")
	require.NoError(t, err)
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "test", 0, time.Now())
	require.NoError(t, k.Put([]cache.Entry{{Key: k.Keyer().Key(a), Verdict: &v}}))
	require.NoError(t, k.Close())
	require.NoError(t, s.Close())
	return w, strings.TrimSpace(key)
}

// openStores opens the stores of a data folder, without a prober.
func openStores(t *testing.T, data string) (*coordinator.Coordinator, *store.Store, *cache.Cache) {
	s, err := store.Open(vfs.Default, filepath.Join(data, "state"))
	require.NoError(t, err)
	k, err := cache.Open(cache.Config{FS: vfs.Default, Dir: filepath.Join(data, "cache")})
	require.NoError(t, err)
	known, err := lists.Default()
	require.NoError(t, err)
	return coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: data, Table: engine.DefaultTable(),
		Lists: known}), s, k
}

// serveAdmin runs a server on the store until the test ends.
func (w *adminTest) serveAdmin(key string) {
	t := w.t
	c, s, k := openStores(t, w.data)
	server, err := api.New(api.Config{}, api.Deps{Store: s, Coordinator: c, FS: vfs.Default,
		Scratch: filepath.Join(w.data, "scratch"),
		Eraser:  NewEraser(s, c, nil, nil, LocalCache{k}, nil)})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln, time.Second) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, k.Close())
		require.NoError(t, s.Close())
	})
	t.Setenv(KeyEnv, key)
	w.targetArgs = []string{"--server", "http://" + ln.Addr().String() + "/"}
}

// TestAdminCommands runs the same commands on a stopped server's store and through a server: the results are the same.
func TestAdminCommands(t *testing.T) {
	detector.Spare(t)
	for _, way := range []string{"at rest", "through a server"} {
		t.Run(way, func(t *testing.T) {
			w, key := newAdminTest(t)
			if way != "at rest" {
				w.serveAdmin(key)
			}
			w.users()
			if way == "at rest" {
				w.resets()
			} else {
				w.needSession()
			}
			w.keys()
			w.restrictedKeys()
			w.credits()
			w.suppressions()
			w.erasure()
			w.backup()
			w.restore()
			w.audit()
		})
	}
}

// needSession are the commands that a key may not do: a server refuses them and says where they work.
func (w *adminTest) needSession() {
	for _, command := range [][]string{{"user", "reset", "bo@example.com"}, {"user", "totp-off", "bo@example.com"},
		{"user", "callback-secret", "bo@example.com"},
		{"user", "add", "boss@example.com", "--role", "admin"},
		{"key", "create", "--user", "root@example.com", "--name", "more", "--scope", "admin"}} {
		_, words := w.run(1, command...)
		require.Contains(w.t, words, "use the command line on the data folder of the stopped server", command)
	}
}

// resets are the same commands on the data folder.
func (w *adminTest) resets() {
	t := w.t
	_, words := w.run(1, "key", "create", "--user", "bo@example.com", "--name", "bad", "--scope", "admin")
	require.Contains(t, words, "admin is for accounts with the role admin")
	link, _ := w.run(0, "user", "reset", "bo@example.com")
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/app/reset#u_\w+\.\w{43}\n$`, link, "the link, and nothing else")
	link, _ = w.run(0, "user", "reset", "bo@example.com", "--public-url", "https://verify.example/")
	require.Regexp(t, `^https://verify\.example/app/reset#u_`, link)
	again := w.rows("user", "reset", "bo@example.com")[0]
	require.NotEqual(t, strings.TrimSpace(link), again["url"])
	require.NotEmpty(t, again["expires_at"])
	secret, said := w.run(0, "user", "callback-secret", "bo@example.com")
	require.Regexp(t, `^whsec_\S{44}\n$`, secret, "the secret, and nothing else")
	require.NotContains(t, said, "stays valid")
	rotated := w.rows("user", "callback-secret", "bo@example.com")[0]
	require.NotEqual(t, strings.TrimSpace(secret), rotated["secret"])
	require.NotEmpty(t, rotated["former_until"])
	w.run(0, "user", "callback-secret", "bo@example.com", "--off")
	require.Nil(t, w.rows("user", "callback-secret", "bo@example.com")[0]["former_until"], "all secrets had ended")
	_, words = w.run(1, "user", "totp-off", "bo@example.com")
	require.Contains(t, words, "TOTP is off")
	require.Empty(t, w.rows("audit", "--action", "totp off"), "nothing was done")
	_, words = w.run(1, "user", "totp-off", "nobody@example.com")
	require.Contains(t, strings.ToLower(words), "there is no")
}

func (w *adminTest) users() {
	t := w.t
	password, _ := w.run(0, "user", "add", "bo@example.com", "--credits", "50", "--limit", "single=60/min", "--limit",
		"bulk=20/hour")
	require.Regexp(t, `^\S{10,}\n$`, password, "the password, and nothing else")
	made := w.rows("user", "add", "cy@example.com")[0]
	require.NotEmpty(t, made["password"])
	require.Equal(t, "customer", made["role"])
	_, words := w.run(1, "user", "add", "BO@example.com")
	require.Contains(t, strings.ToLower(words), "an account with this e-mail address exists")
	for _, bad := range [][]string{{"--limit", "single=0/min"}, {"--limit", "single=5/hour"},
		{"--limit", "bulk=x/hour"}, {"--limit", "5"}, {"--role", "king"}} {
		w.run(2, append([]string{"user", "add", "dee@example.com"}, bad...)...)
	}
	out, _ := w.run(0, "user", "list")
	require.Regexp(t, `(?m)^EMAIL +ROLE +STATE`, out)
	require.Regexp(t, `(?m)^bo@example.com +customer +active +60 +20 +20`, out)
	require.Regexp(t, `(?m)^cy@example.com +customer +active +30 +10 +20`, out)
	require.Equal(t, true, w.rows("user", "disable", "cy@example.com")[0]["disabled"])
	require.Equal(t, false, w.rows("user", "enable", made["id"].(string))[0]["disabled"])
	limited := w.rows("user", "limit", "cy@example.com", "--limit", "bulk=3/hour", "--limit", "batch=9/min")[0]
	require.Equal(t, map[string]any{"batch_per_minute": 9.0, "bulk_per_hour": 3.0}, limited["limits"])
	require.NotContains(t, limited, "password")
	_, words = w.run(2, "user", "limit", "cy@example.com")
	require.Contains(t, words, "--limit is missing; give single=N/min, batch=N/min or bulk=N/hour")
	_, words = w.run(1, "user", "disable", "nobody@example.com")
	require.Contains(t, strings.ToLower(words), "there is no")
}

func (w *adminTest) keys() {
	t := w.t
	key, words := w.run(0, "key", "create", "--user", "bo@example.com", "--name", "shop", "--test")
	require.Regexp(t, `^prb_test_\w{38}\n$`, key, "the key, and nothing else")
	require.Empty(t, words)
	w.run(2, "key", "create", "--user", "bo@example.com")
	listed := w.rows("key", "list", "--user", "bo@example.com")
	require.Len(t, listed, 1)
	require.Equal(t, []any{"shop", true, "bo@example.com", nil},
		[]any{listed[0]["name"], listed[0]["test"], listed[0]["user"], listed[0]["last_used_at"]})
	require.True(t, strings.HasSuffix(strings.TrimSpace(key), listed[0]["last4"].(string)))
	require.NotContains(t, listed[0], "key", "a secret is shown once")
	out, _ := w.run(0, "key", "list")
	require.Regexp(t, `(?m)^k_\w+ +bo@example.com +shop +test`, out)
	require.Contains(t, out, "root@example.com")
	w.run(0, "key", "revoke", listed[0]["id"].(string))
	w.run(1, "key", "revoke", listed[0]["id"].(string))
	require.Empty(t, w.rows("key", "list", "--user", "bo@example.com"))
	w.run(1, "key", "list", "--user", "nobody@example.com")
}

// restrictedKeys makes keys with restrictions.
func (w *adminTest) restrictedKeys() {
	t := w.t
	for _, flags := range [][]string{{"--scope", "everything"}, {"--expires", "tomorrow"}, {"--expires", "0d"},
		{"--network", "example.com"}, {"--network", "192.0.2.77/24"}} {
		w.run(2, append([]string{"key", "create", "--user", "bo@example.com", "--name", "bad"}, flags...)...)
	}
	_, words := w.run(2, "key", "create", "--user", "bo@example.com", "--name", "bad", "--expires", "2001-01-01")
	require.Contains(t, words, "--expires 2001-01-01 is over; give a later date")
	narrow, _ := w.run(0, "key", "create", "--user", "bo@example.com", "--name", "narrow", "--scope", "account",
		"--scope", "jobs", "--expires", "2999-01-31",
		"--network", "192.0.2.0/24", "--network", "2001:db8::1")
	for _, k := range w.rows("key", "list", "--user", "bo@example.com") {
		require.Equal(t, []any{"narrow", []any{"jobs", "account"}, "2999-01-31T00:00:00Z",
			[]any{"192.0.2.0/24", "2001:db8::1/128"}},
			[]any{k["name"], k["scopes"], k["expires_at"], k["networks"]})
		require.True(t, strings.HasSuffix(strings.TrimSpace(narrow), k["last4"].(string)))
		w.run(0, "key", "revoke", k["id"].(string))
	}
	out, _ := w.run(0, "key", "list")
	require.Regexp(t, `(?m)^k_\w+ +root@example.com +admin +live +\w{4} +admin +- +- `, out)
}

func (w *adminTest) credits() {
	t := w.t
	of := []string{"--user", "bo@example.com"}
	granted := w.rows(append([]string{"credits", "grant", "--amount", "25", "--note", "order 1", "--id", "o1"},
		of...)...)
	require.Equal(t, []map[string]any{{"balance": 75.0, "reserved": 0.0}}, granted)
	require.Equal(t, granted, w.rows(append([]string{"credits", "grant", "--amount", "25", "--note", "order 1", "--id",
		"o1"}, of...)...), "once")
	out, _ := w.run(0, append([]string{"credits", "grant", "--amount=-5"}, of...)...)
	require.Regexp(t, `^BALANCE +RESERVED\n70 +0\n$`, out)
	_, words := w.run(1, append([]string{"credits", "grant", "--amount=-500"}, of...)...)
	require.Contains(t, words, "70")
	require.Equal(t, 70.0, w.rows(append([]string{"credits", "balance"}, of...)...)[0]["balance"])
	for range ledgerPageSize {
		w.run(0, append([]string{"credits", "grant", "--amount", "1"}, of...)...)
	}
	all := w.rows(append([]string{"credits", "ledger", "--limit", "0"}, of...)...)
	require.Len(t, all, ledgerPageSize+3)
	sum := 0.0
	for _, e := range all {
		sum += e["amount"].(float64)
	}
	require.Equal(t, all[0]["balance"], sum)
	require.Equal(t, all[:2], w.rows(append([]string{"credits", "ledger", "--limit", "2"}, of...)...), "newest first")
	out, _ = w.run(0, append([]string{"credits", "ledger"}, of...)...)
	require.Equal(t, 101, strings.Count(out, "\n"))
	require.Regexp(t, `(?m)^103 +20\S+Z +grant +1 +1 +170 +0 `, out)
	w.run(2, "credits", "balance")
}

func (w *adminTest) suppressions() {
	t := w.t
	added := w.rows("suppress", "add", "Example.ORG.", "--note", "asked")[0]
	require.Equal(t, []any{"domain", "example.org", "asked"}, []any{added["kind"], added["name"], added["note"]})
	require.Equal(t, "address", w.rows("suppress", "add", "Ann@Example.ORG")[0]["kind"])
	require.Equal(t, "mx", w.rows("suppress", "add", "mx.example.org", "--kind", "mx")[0]["kind"])
	_, words := w.run(1, "suppress", "add", "no domain")
	require.Contains(t, words, "name is not a domain name")
	_, words = w.run(1, "suppress", "remove", "nope.example")
	require.Equal(t, "nope.example is not on the list: suppress list shows what is\n", words)
	out, _ := w.run(0, "suppress", "list")
	require.Equal(t, 4, strings.Count(out, "\n"))
	w.run(0, "suppress", "remove", "example.org")
	w.run(1, "suppress", "remove", "example.org")
	require.Len(t, w.rows("suppress", "list"), 2)
}

func (w *adminTest) erasure() {
	t := w.t
	first := w.rows("erase", " GONE@shop.example")[0]
	for key, want := range map[string]any{"status": "done", "cached": 1.0, "jobs": 1.0, "rows": 1.0} {
		require.Equal(t, want, first[key], key)
	}
	out, _ := w.run(0, "erase", "gone@shop.example")
	require.Regexp(t, `^RECEIPT +ASKED +STATUS +HASH +JOBS +ROWS +CACHED +AGES OUT\n[0-9a-f]{24} +\d{4}-\d\d-\d\dT[0-9:]{8}Z +done +[0-9a-f]{12} +0 +0 +0 +-\n$`, out)
	require.Contains(t, out, first["address_sha256"].(string)[:12])
	require.Equal(t, []map[string]any{first}, w.rows("erase", "--receipt", first["erasure_id"].(string)))
	all := w.rows("erase", "--list")
	require.Len(t, all, 2)
	require.Equal(t, first, all[1], "the newest is first")
	_, words := w.run(1, "erase", "--receipt", "none")
	require.Contains(t, words, "no erasure")
	_, words = w.run(2, "erase")
	require.Contains(t, words, "give the address to forget, or --receipt ID, or --list")
	_, words = w.run(1, "erase", "gone")
	require.Contains(t, words, "address")
}

func (w *adminTest) backup() {
	t := w.t
	copied := filepath.Join(t.TempDir(), "copy")
	w.run(0, "backup", copied)
	info, err := os.Stat(copied)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	_, words := w.run(1, "backup", copied)
	require.Contains(t, words, "exists")
	_, words = w.run(1, "backup", filepath.Join(copied, "missing", "copy"))
	require.Contains(t, words, "no backup was asked for: mkdir ")
	require.Len(t, w.rows("audit", "--action", "backup"), 1, "the one that was written")
	data := t.TempDir()
	require.NoError(t, os.Rename(copied, filepath.Join(data, "state")))
	restored := &adminTest{t: t, targetArgs: []string{"--data", data}}
	require.Equal(t, w.rows("user", "list"), restored.rows("user", "list"))
	require.Equal(t, w.rows("credits", "ledger", "--user", "bo@example.com"),
		restored.rows("credits", "ledger", "--user", "bo@example.com"))
}

func TestAdminRefusals(t *testing.T) {
	w, key := newAdminTest(t)
	for _, c := range []struct {
		status int
		where  []string
		key    string
		words  string
	}{
		{1, []string{"--data", filepath.Join(w.data, "other")}, "", "there is no store"},
		{2, []string{"--server", "http://127.0.0.1:1"}, "", KeyEnv},
		{1, []string{"--server", "http://127.0.0.1:1"}, key,
			"http://127.0.0.1:1 does not answer (connect: connection refused): start it if it does not run, " +
				"else name the server's public URL as --server\n"},
		{2, []string{"--server", "127.0.0.1:1"}, key, "write a URL"},
		{2, []string{"--server", "http://127.0.0.1:1", "--data", w.data}, key, "one says where"},
	} {
		t.Setenv(KeyEnv, c.key)
		_, words := (&adminTest{t: t, targetArgs: c.where}).run(c.status, "user", "list")
		require.Contains(t, words, c.words)
		require.NotContains(t, words, key[10:])
	}
	require.NoDirExists(t, filepath.Join(w.data, "other"))
	t.Setenv("PROBITY_SERVER", "http://127.0.0.1:1")
	require.Len(t, w.rows("user", "list"), 1, "a folder on the command line wins over a server in the environment")
	w.serveAdmin(strings.Replace(key, "prb_live_", "prb_test_", 1))
	_, words := w.run(1, "user", "list")
	require.Contains(t, words, "PROBITY_ADMIN_KEY is missing, wrong, revoked or expired: set it to a live key of an admin with the scope admin")
}

// TestWhatIsNotThereIsNamed: a request that names nothing has the wrong URL; any other names what is not there.
func TestWhatIsNotThereIsNamed(t *testing.T) {
	w, key := newAdminTest(t)
	w.serveAdmin(key)
	noAccount := "there is no account no@shop.example: name it by its e-mail address or its id\n"
	for args, want := range map[string]string{
		"user disable no@shop.example":                    noAccount,
		"key create --name x --user no@shop.example":      noAccount,
		"key list --user no@shop.example":                 noAccount,
		"credits grant --amount 1 --user no@shop.example": noAccount,
		"credits ledger --user no@shop.example":           noAccount,
		"suppress remove shop.example":                    "shop.example is not on the list: suppress list shows what is\n",
	} {
		_, words := w.run(1, strings.Fields(args)...)
		require.Equal(t, want, words, args)
	}
	base := w.targetArgs[1] + "foo"
	w.targetArgs[1] = base
	for args, request := range map[string]string{
		"user list":              "GET /v1/admin/users",
		"audit":                  "GET /v1/admin/audit",
		"erase --list":           "GET /v1/admin/erasures",
		"backup " + w.data + "2": "POST /v1/admin/backup",
	} {
		_, words := w.run(1, strings.Fields(args)...)
		require.Equal(t, base+" answers "+request+" with 404 Not Found: name the server's public URL as --server\n",
			words, args)
	}
}

func TestHelpNamesTheDataFolder(t *testing.T) {
	for _, args := range [][]string{{"user", "list"}, {"user", "first-password"}, {"restore"}} {
		var out bytes.Buffer
		parser, err := kong.New(&Commands{}, kong.Writers(&out, &out), kong.Exit(func(int) {}))
		require.NoError(t, err)
		_, _ = parser.Parse(append(args, "--help"))
		require.Contains(t, strings.Join(strings.Fields(out.String()), " "), "default: ./probity-data.", args)
	}
}

// TestAdminKeyIsNotSentAfterARedirect: the key is not sent on when a server redirects.
func TestAdminKeyIsNotSentAfterARedirect(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	t.Setenv(KeyEnv, "prb_live_x")
	_, words := (&adminTest{t: t, targetArgs: []string{"--server", first.URL}}).run(1, "user", "list")
	require.Contains(t, words, "sends us on")
	require.Zero(t, asked)
}

// TestUnpackBackup: an incomplete archive leaves no files, and no archive writes outside of its folder.
func TestUnpackBackup(t *testing.T) {
	for name, c := range map[string]struct {
		entries []tar.Header
		cut     int
		want    string
	}{
		"whole":  {entries: []tar.Header{{Name: "MANIFEST-000001", Size: 3}, {Name: backupEndEntry}}},
		"no end": {entries: []tar.Header{{Name: "MANIFEST-000001", Size: 3}}, want: "broke off"},
		"cut": {entries: []tar.Header{{Name: "MANIFEST-000001", Size: 3}, {Name: backupEndEntry}}, cut: 2047,
			want: "unexpected EOF"},
		"climbing": {entries: []tar.Header{{Name: "../x", Size: 3}, {Name: backupEndEntry}},
			want: "not a file of a store"},
		"deep": {entries: []tar.Header{{Name: "a/b/c/d", Size: 3}, {Name: backupEndEntry}},
			want: "not a file of a store"},
		"a link": {entries: []tar.Header{{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
			{Name: backupEndEntry}}, want: "not a file of a store"},
		"twice": {entries: []tar.Header{{Name: "x", Size: 3}, {Name: "x", Size: 3}, {Name: backupEndEntry}},
			want: "exists"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, h := range c.entries {
				if h.Typeflag == 0 {
					h.Typeflag = tar.TypeReg
				}
				require.NoError(t, w.WriteHeader(&h))
				fmt.Fprint(w, strings.Repeat("x", int(h.Size)))
			}
			require.NoError(t, w.Close())
			dir := t.TempDir()
			whole := b.Bytes()
			ask := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(whole[:len(whole)-c.cut])), nil }
			err := writeBackup(filepath.Join(dir, "copy"), ask)
			left, readErr := os.ReadDir(dir)
			require.NoError(t, readErr)
			if c.want == "" {
				require.NoError(t, err)
				require.FileExists(t, filepath.Join(dir, "copy", "MANIFEST-000001"))
				return
			}
			require.ErrorContains(t, err, c.want)
			require.Empty(t, left)
		})
	}
}

// TestNamesAnAddress: a stored answer is found by its address fields, not by its text.
func TestNamesAnAddress(t *testing.T) {
	for body, want := range map[string]bool{
		`{"email":" Ann@Example.com"}`:                                             true,
		`{"email":"x","details":{"normalized_email":"ann@example.com"}}`:           true,
		`{"email":"ann@exmaple.com","details":{"did_you_mean":"ann@example.com"}}`: true,
		`{"email":"joann@example.com"}`:                                            false,
		`{"job_id":"ann@example.com"}`:                                             false,
		`not JSON`:                                                                 false,
	} {
		require.Equal(t, want, record.IsAnswerAbout([]byte(body), "ann@example.com"), body)
	}
}
