package conn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tlsServer is a TLS server for some names.
func tlsServer(t testing.TB, names ...string) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	cert := x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &cert, &cert, &key.PublicKey, key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// handshake shakes hands and reads a byte, behind which TLS 1.3 has sent its tickets. It tells whether an old session
// went on.
func handshake(t testing.TB, server, client *tls.Config, host string) (resumed bool) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	served := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			s := tls.Server(c, server)
			_, err = s.Write([]byte{'.'})
			_ = s.Close()
		}
		served <- err
	}()
	raw, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	client = client.Clone()
	client.ServerName = host
	c := tls.Client(raw, client)
	defer c.Close()
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, <-served)
	return c.ConnectionState().DidResume
}

func TestTLSResumesOnlyForTheCertifiedHost(t *testing.T) {
	for name, most := range map[string]uint16{"TLS 1.3": tls.VersionTLS13, "TLS 1.2": tls.VersionTLS12} {
		t.Run(name, func(t *testing.T) {
			var kept tickets
			base := clientTLS
			server, otherServer := tlsServer(t, "*.mail.receiver.test"), tlsServer(t, "*.mail.receiver.test")
			server.MaxVersion, otherServer.MaxVersion = most, most
			for _, step := range []struct {
				provider, host string
				server         *tls.Config
				resumes        bool
			}{
				{"receiver", "one.mail.receiver.test", server, false},
				{"receiver", "two.mail.receiver.test", server, true},
				{"receiver", "mx.elsewhere.test", server, false}, // the certificate does not name it
				{"other", "two.mail.receiver.test", server, false},
				{"receiver", "two.mail.receiver.test", server, true},
				{"receiver", "two.mail.receiver.test", otherServer, false}, // does not know the ticket: in full
				{"receiver", "one.mail.receiver.test", otherServer, true},
			} {
				require.Equal(t, step.resumes, handshake(t, step.server, kept.resume(base, step.provider, step.host),
					step.host), "%s %s", step.provider, step.host)
			}
		})
	}
}

// BenchmarkHandshake is a connection with its handshake, both sides of it: as it was with X25519, in full, and going
// on.
func BenchmarkHandshake(b *testing.B) {
	server := tlsServer(b, "*.mail.receiver.test")
	const host = "one.mail.receiver.test"
	older := clientTLS.Clone()
	older.CurvePreferences = append(older.CurvePreferences, tls.X25519)
	b.Run("x25519", func(b *testing.B) {
		for b.Loop() {
			handshake(b, server, older, host)
		}
	})
	b.Run("full", func(b *testing.B) {
		for b.Loop() {
			handshake(b, server, clientTLS, host)
		}
	})
	b.Run("resumed", func(b *testing.B) {
		var kept tickets
		base := clientTLS
		for b.Loop() {
			handshake(b, server, kept.resume(base, "receiver", host), host)
		}
	})
}
