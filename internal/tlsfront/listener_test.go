package tlsfront

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writeSelfSigned writes a certificate of front.test that signs itself.
func writeSelfSigned(t *testing.T, cert, key string, valid time.Duration) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"front.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// serialOf is the serial number of the certificate on a new connection; the certificate must be trusted.
func serialOf(t *testing.T, address string, trusted *x509.CertPool) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: "front.test"})
	require.NoError(t, err)
	defer conn.Close()
	require.GreaterOrEqual(t, conn.ConnectionState().Version, uint16(tls.VersionTLS12))
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// A file pair is read again by Reread alone, is served after Use, and a broken one leaves the old one in use.
func TestFrontServesAPairOnceItIsUsed(t *testing.T) {
	dir := t.TempDir()
	flags := Flags{TLSCert: filepath.Join(dir, "front.crt"), TLSKey: filepath.Join(dir, "front.key")}
	writeSelfSigned(t, flags.TLSCert, flags.TLSKey, time.Hour)
	l, err := New(&flags, dir)
	require.NoError(t, err)
	served := func() []byte {
		pair, err := l.Config().GetCertificate(nil)
		require.NoError(t, err)
		return pair.Certificate[0]
	}
	first, until := served(), l.Expiry()
	require.WithinDuration(t, time.Now().Add(time.Hour), until, time.Minute)
	writeSelfSigned(t, flags.TLSCert, flags.TLSKey, 2*time.Hour)
	pair, err := l.Reread()
	require.NoError(t, err)
	require.Equal(t, first, served())
	l.Use(pair)
	require.NotEqual(t, first, served())
	require.True(t, l.Expiry().After(until))
	require.NoError(t, os.Truncate(flags.TLSCert, 100))
	_, err = l.Reread()
	require.Error(t, err)
	require.True(t, l.Contradicts("http://front.test"))
	require.False(t, l.Contradicts("https://front.test"))
	require.Equal(t, "https", l.Scheme())
}

func TestFrontRefusals(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "front.crt"), filepath.Join(dir, "front.key")
	writeSelfSigned(t, cert, key, time.Millisecond)
	for words, f := range map[string]Flags{
		"belong together": {TLSCert: cert},
		"at once":         {TLSCert: cert, TLSKey: key, ACMEDomain: []string{"a.example"}},
		"mean nothing":    {ACMEEmail: "a@b.example"},
		"no such file":    {TLSCert: cert, TLSKey: filepath.Join(dir, "none")},
		"get a new one":   {TLSCert: cert, TLSKey: key},
		"been switched":   {TLSCert: key, TLSKey: cert},
	} {
		_, err := New(&f, dir)
		require.ErrorContains(t, err, words)
	}
	none, err := New(new(Flags), dir)
	require.NoError(t, err)
	require.Nil(t, none.Config())
	require.Equal(t, "http", none.Scheme())
}

// TestFrontFromAuthority gets a certificate from a fake ACME authority, which checks the listener before it signs.
func TestFrontFromAuthority(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ca := newACMEAuthority(t, ln.Addr().String())
	flags := Flags{ACMEDomain: []string{"front.test"}, ACMEEmail: "ops@front.test", ACMEDirectory: ca.url + "/directory"}
	dir := t.TempDir()
	l, err := New(&flags, dir)
	require.NoError(t, err)
	server := &http.Server{Handler: http.NotFoundHandler(), TLSConfig: l.Config()}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(ln, l.Config())) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-served
	})
	first := serialOf(t, ln.Addr().String(), ca.pool)
	require.Equal(t, first, serialOf(t, ln.Addr().String(), ca.pool), "it is asked for once")
	require.Equal(t, 1, ca.orders())
	kept, err := filepath.Glob(filepath.Join(dir, "acme", "front.test*"))
	require.NoError(t, err)
	require.NotEmpty(t, kept, "and kept for the next start")
	_, err = tls.Dial("tcp", ln.Addr().String(), &tls.Config{RootCAs: ca.pool, ServerName: "other.test"})
	require.Error(t, err, "a name that was not given is not asked for")
	require.Equal(t, 1, ca.orders())
}
