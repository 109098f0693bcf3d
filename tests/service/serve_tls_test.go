package service_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// writeServerCert writes the certificate of front.test, with a new authority, and returns a pool that trusts it.
func writeServerCert(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	makeCerts(t, dir, []string{"init"}, []string{"node", "front.test"})
	require.NoError(t, os.Rename(at("front.test.crt"), cert))
	require.NoError(t, os.Rename(at("front.test.key"), key))
	authority, err := os.ReadFile(at("ca.crt"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority))
	return pool
}

// servedSerial is the serial number of the certificate on a new connection; the certificate must be trusted.
func servedSerial(t *testing.T, address string, trusted *x509.CertPool) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: "front.test"})
	require.NoError(t, err)
	defer conn.Close()
	require.GreaterOrEqual(t, conn.ConnectionState().Version, uint16(tls.VersionTLS12))
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestFrontIsRenewed: a server with a certificate in files loads a new one at SIGHUP without a failed connection, and
// keeps the old one if the new one is invalid.
func TestFrontIsRenewed(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "front.crt"), filepath.Join(dir, "front.key")
	trusted := writeServerCert(t, cert, key)
	overrides := filepath.Join(dir, "providers.toml")
	require.NoError(t, os.WriteFile(overrides, nil, 0o600))
	p := &serviceEnv{processCtx: context.WithoutCancel(t.Context()), internet: internet{dns: "127.0.0.1:1", smtp: "1"},
		overrides: overrides}
	s := startServer(t, p, filepath.Join(dir, "data"), "127.0.0.1",
		"--tls-cert", cert, "--tls-key", key)
	address := s.base[len("http://"):]
	first := servedSerial(t, address, trusted)

	reloadAndWait := func(words string) {
		require.NoError(t, s.process.Process.Signal(syscall.SIGHUP))
		require.Eventually(t, func() bool { return s.logContains(words) }, 20*time.Second, 5*time.Millisecond, words)
	}
	good, err := os.ReadFile(cert)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, good[:len(good)/2], 0o600))
	reloadAndWait("everything stays as it was")
	require.Equal(t, first, servedSerial(t, address, trusted))
	renewed := writeServerCert(t, cert, key)
	reloadAndWait("msg=reloaded")
	require.NotEqual(t, first, servedSerial(t, address, renewed))
	require.True(t, s.logContains("the provider table is as it was"), s.logText())
	mine := []byte("[[provider]]\nid = \"google\"\nprobe = \"off\"\n")
	require.NoError(t, os.WriteFile(overrides, mine, 0o600))
	table, err := engine.DefaultTable().Override(mine)
	require.NoError(t, err)
	hash := table.Hash()
	reloadAndWait(fmt.Sprintf(`now="%x of `, hash[:]))

	_, err = http.Get("http://" + address + "/healthz")
	require.Error(t, err, "nothing is answered in clear")
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	<-s.exited
	require.NoError(t, s.err, s.logText())
}

// logContains reports whether the server has written something to its log.
func (s *serverProcess) logContains(words string) bool { return strings.Contains(s.logText(), words) }
