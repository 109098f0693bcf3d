package service_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
)

// TestListsAreReloaded: a running server loads the lists of a changed file, and keeps the old ones if the file is
// wrong, loses a fifth of a list, or contains a large provider.
func TestListsAreReloaded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lists.toml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("")
	overrides := filepath.Join(dir, "providers.toml")
	require.NoError(t, os.WriteFile(overrides, nil, 0o600))
	p := &serviceEnv{processCtx: context.WithoutCancel(t.Context()),
		internet: internet{dns: newEmptyResolver(t), smtp: "1"}, overrides: overrides}
	s := startServer(t, p, filepath.Join(dir, "data"), "127.0.0.1", "--lists", file)
	reloadAndWait := func(words string) {
		t.Helper()
		require.NoError(t, s.process.Process.Signal(syscall.SIGHUP))
		require.Eventually(t, func() bool { return s.logContains(words) }, 20*time.Second, 5*time.Millisecond, words)
	}
	disposable := func() bool {
		t.Helper()
		resp, err := http.Post(s.base+"/v1/verify/public", "application/json",
			strings.NewReader(`{"email":"ann@throw.example"}`))
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
		return strings.Contains(string(body), `"is_disposable":true`)
	}

	require.False(t, disposable())
	write("[disposable]\nadd = [\"throw.example\"]\n[role]\nadd = [\"" + strings.Join(roleNames("desk", 1000), `", "`) +
		"\"]\n")
	reloadAndWait(`msg="other lists are in force"`)
	require.True(t, disposable())
	reloadAndWait(`msg="the lists are as they were"`)

	write("[disposable]\nadd = [\"gmail.com\"]\n")
	reloadAndWait(`line 2: disposable: \"gmail.com\": gmail.com gives free mailboxes`)
	write("[disposable]\nadd = [\"throw.example\"]\n[disposal]\n")
	reloadAndWait(`line 3: unknown key \"disposal\"`)
	write("")
	reloadAndWait("entries of the role list, a fifth or more")
	require.True(t, s.logContains("everything stays as it was"), s.logText())
	require.True(t, disposable(), "the lists in force stay")
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	<-s.exited
	require.NoError(t, s.err, s.logText())
}

// newEmptyResolver is the address of a resolver for which no name exists.
func newEmptyResolver(t *testing.T) string {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	server := &dns.Server{PacketConn: socket, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeNameError)) // a query without an answer fails the test
	})}
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		require.NoError(t, server.Shutdown())
		require.NoError(t, <-ended)
	})
	return socket.LocalAddr().String()
}

// roleNames are n role names that differ in their letters.
func roleNames(prefix string, n int) (list []string) {
	for i := range n {
		list = append(list, prefix+string([]byte{'a' + byte(i/26/26%26), 'a' + byte(i/26%26), 'a' + byte(i%26)}))
	}
	return list
}
