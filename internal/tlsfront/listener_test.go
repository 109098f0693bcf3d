package tlsfront

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// writeSelfSigned writes a certificate of front.test that signs itself.
func writeSelfSigned(t *testing.T, cert, key string, valid time.Duration) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"front.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid)}
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
	l, err := New(&flags, dir, slog.New(slog.DiscardHandler))
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
		_, err := New(&f, dir, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, words)
	}
	none, err := New(new(Flags), dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Nil(t, none.Config())
	require.Equal(t, "http", none.Scheme())
}

// TestFrontFromAuthority gets a certificate from a fake ACME authority, which checks the listener before it signs.
func TestFrontFromAuthority(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ca := newACMEAuthority(t, ln.Addr().String())
	flags := Flags{ACMEDomain: []string{"front.test"}, ACMEEmail: "ops@front.test",
		ACMEDirectory: ca.url + "/directory"}
	dir := t.TempDir()
	l, err := New(&flags, dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	serveTLS(t, ln, l)
	require.Zero(t, l.Expiry(), "no client has got one")
	first := serialOf(t, ln.Addr().String(), ca.pool)
	require.Equal(t, first, serialOf(t, ln.Addr().String(), ca.pool), "it is asked for once")
	require.Equal(t, 1, ca.orders())
	require.WithinDuration(t, time.Now().Add(90*24*time.Hour), l.Expiry(), time.Minute)
	kept, err := filepath.Glob(filepath.Join(dir, "acme", "front.test*"))
	require.NoError(t, err)
	require.NotEmpty(t, kept, "and kept for the next start")
	_, err = tls.Dial("tcp", ln.Addr().String(), &tls.Config{RootCAs: ca.pool, ServerName: "other.test"})
	require.Error(t, err, "a name that was not given is not asked for")
	require.Equal(t, 1, ca.orders())
	require.Zero(t, failuresOf(l))
}

func failuresOf(l *Listener) int64 {
	n, _ := l.ACMEFailures()
	return n
}

// serveTLS answers connections until the test ends.
func serveTLS(t *testing.T, ln net.Listener, l *Listener) {
	t.Helper()
	server := &http.Server{Handler: http.NotFoundHandler(), TLSConfig: l.Config(), ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(ln, l.Config())) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-served
	})
}

// TestACMEFailuresAreSeen: an authority that refuses is counted at each client and each request, logged once a minute,
// and shows as a certificate that has ended. A client that asks for another name is no failure, and neither is an
// authority's probe.
func TestACMEFailuresAreSeen(t *testing.T) {
	var requests atomic.Int64
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(refusing.Close)
	var out lockedBuffer
	l, err := New(&Flags{ACMEDomain: []string{"front.test"}, ACMEDirectory: refusing.URL}, t.TempDir(),
		slog.New(slog.NewTextHandler(&out, nil)))
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveTLS(t, ln, l)
	connect := func(name string, protocols ...string) {
		t.Helper()
		_, err := tls.Dial("tcp", ln.Addr().String(),
			&tls.Config{InsecureSkipVerify: true, ServerName: name, NextProtos: protocols})
		require.Error(t, err)
	}
	connect("other.test")
	connect("front.test", acme.ALPNProto)
	require.Zero(t, failuresOf(l))
	require.Zero(t, l.Expiry())

	const clients = 5
	began := time.Now()
	for range clients {
		connect("Front.test")
	}
	require.Positive(t, requests.Load())
	require.Equal(t, clients+requests.Load(), failuresOf(l))
	require.WithinRange(t, l.Expiry(), began, time.Now())
	since := l.Expiry()
	connect("front.test")
	require.Equal(t, since, l.Expiry(), "it is missing since the first failure")
	text := out.String()
	require.Equal(t, 1, strings.Count(text, "level=WARN msg=\""+string(requestFailed)+"\" url="+refusing.URL), text)
	require.Equal(t, 1, strings.Count(text, "level=WARN msg=\""+string(handshakeFailed)+"\" name=front.test error="),
		text)
	require.Equal(t, 2, strings.Count(text, "\n"), text)
}

// TestKeptACMECertificateHasItsExpiry: one of an earlier start counts as soon as a client has got it.
func TestKeptACMECertificateHasItsExpiry(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	writeSelfSigned(t, cert, key, 48*time.Hour)
	chain, err := os.ReadFile(cert)
	require.NoError(t, err)
	secret, err := os.ReadFile(key)
	require.NoError(t, err)
	require.NoError(t, autocert.DirCache(filepath.Join(dir, "acme")).Put(t.Context(), "front.test",
		append(secret, chain...)))
	l, err := New(&Flags{ACMEDomain: []string{"front.test"}, ACMEDirectory: "http://127.0.0.1:1"}, dir,
		slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveTLS(t, ln, l)
	conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: "front.test"})
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.WithinDuration(t, time.Now().Add(48*time.Hour), l.Expiry(), time.Minute)
}

// lockedBuffer is a log that connections write to at the same time.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
