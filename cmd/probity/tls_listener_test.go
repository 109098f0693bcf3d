package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/safefile"
)

// writeServerCert writes a server's certificate for 127.0.0.1, with a new authority, and returns a pool that trusts it.
func writeServerCert(t *testing.T, cert, key string, valid time.Duration) *x509.CertPool {
	t.Helper()
	issued, err := newAuthority("test", time.Now(), time.Hour)
	require.NoError(t, err)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	require.NoError(t, safefile.WriteNewSecrets([]safefile.Secret{{Path: ca, Data: issued.cert}, {Path: filepath.Join(dir, "ca.key"), Data: issued.key}}))
	authority, err := readAuthority(ca, filepath.Join(dir, "ca.key"))
	require.NoError(t, err)
	own, err := authority.issue("front.test", x509.ExtKeyUsageServerAuth, time.Now(), valid)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, own.cert, 0o600))
	require.NoError(t, os.WriteFile(key, own.key, 0o600))
	pool := x509.NewCertPool()
	pool.AddCert(authority.cert)
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
	trusted := writeServerCert(t, cert, key, time.Hour)
	overrides := filepath.Join(dir, "providers.toml")
	require.NoError(t, os.WriteFile(overrides, nil, 0o600))
	p := &serviceEnv{processCtx: context.WithoutCancel(t.Context()), internet: internet{dns: "127.0.0.1:1", smtp: "1"}, overrides: overrides}
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
	renewed := writeServerCert(t, cert, key, time.Hour)
	reloadAndWait("msg=reloaded")
	require.NotEqual(t, first, servedSerial(t, address, renewed))
	require.True(t, s.logContains("the provider table is as it was"), s.logText())
	mine := []byte("[[provider]]\nid = \"google\"\nprobe = \"off\"\n")
	require.NoError(t, os.WriteFile(overrides, mine, 0o600))
	table, err := engine.DefaultTable().Override(mine)
	require.NoError(t, err)
	reloadAndWait(`now="` + tableName(table) + `"`)

	_, err = http.Get("http://" + address + "/healthz")
	require.Error(t, err, "nothing is answered in clear")
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	<-s.exited
	require.NoError(t, s.err, s.logText())
}

func TestFrontRefusals(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "front.crt"), filepath.Join(dir, "front.key")
	writeServerCert(t, cert, key, time.Millisecond)
	for words, f := range map[string]tlsFlags{
		"belong together": {TLSCert: cert},
		"at once":         {TLSCert: cert, TLSKey: key, ACMEDomain: []string{"a.example"}},
		"mean nothing":    {ACMEEmail: "a@b.example"},
		"no such file":    {TLSCert: cert, TLSKey: filepath.Join(dir, "none")},
		"get a new one":   {TLSCert: cert, TLSKey: key},
		"been switched":   {TLSCert: key, TLSKey: cert},
	} {
		_, err := f.newTLSListener(dir)
		require.ErrorContains(t, err, words)
	}
	none, err := new(tlsFlags).newTLSListener(dir)
	require.NoError(t, err)
	require.Nil(t, none.tlsConfig())
	require.Equal(t, "http", none.scheme())
}

// TestFrontFromAuthority gets a certificate from a fake ACME authority, which checks the listener before it signs.
func TestFrontFromAuthority(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ca := newACMEAuthority(t, ln.Addr().String())
	flags := tlsFlags{ACMEDomain: []string{"front.test"}, ACMEEmail: "ops@front.test", ACMEDirectory: ca.url + "/directory"}
	dir := t.TempDir()
	f, err := flags.newTLSListener(dir)
	require.NoError(t, err)
	server := &http.Server{Handler: http.NotFoundHandler(), TLSConfig: f.tlsConfig()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(ln, f.tlsConfig())) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-served
	})
	first := servedSerial(t, ln.Addr().String(), ca.pool)
	require.Equal(t, first, servedSerial(t, ln.Addr().String(), ca.pool), "it is asked for once")
	require.Equal(t, 1, ca.orders())
	kept, err := filepath.Glob(filepath.Join(dir, "acme", "front.test*"))
	require.NoError(t, err)
	require.NotEmpty(t, kept, "and kept for the next start")
	_, err = tls.Dial("tcp", ln.Addr().String(), &tls.Config{RootCAs: ca.pool, ServerName: "other.test"})
	require.Error(t, err, "a name that was not given is not asked for")
	require.Equal(t, 1, ca.orders())
}

// logContains reports that the server has written something to its log.
func (s *serverProcess) logContains(words string) bool { return strings.Contains(s.logText(), words) }
