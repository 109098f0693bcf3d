package callback

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/outward"
	"probity/store"
)

func TestPublicCallbackURLsAreAccepted(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.name("mixed.example", netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr(receiverAddr))
		for _, raw := range []string{
			"http://hook.example/",
			"https://hook.example:8443/a?b=c#d",
			"HTTPS://Hook.Example./",
			"http://bücher.example/",
			"http://under_score.example",
			"http://mixed.example/",
			"http://unknown.example/",
			"http://198.41.0.4/",
			"http://[2606:4700::1]:8080/",
		} {
			require.NoError(t, w.sender.CheckURL(t.Context(), raw), raw)
		}
	})
}

func TestUnsafeCallbackURLsAreRefused(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		w.name("inside.example", netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"))
		for raw, want := range map[string]string{
			"":                                              "must begin with http",
			"hook.example/x":                                "must begin with http",
			"ftp://hook.example/":                           "must begin with http",
			"file:///etc/passwd":                            "must begin with http",
			"http:hook.example":                             "has no host",
			"http:///x":                                     "has no host",
			"http://:80/":                                   "has no host",
			"http://ann:secret@hook.example/":               "user name",
			"http://ann@hook.example/":                      "user name",
			"http://hook.example:0/":                        "not a port",
			"http://hook.example:70000/":                    "not a port",
			"http://hook.example:25/":                       "mail",
			"http://hook.example\r\nX: y/":                  "has U+000D",
			"http://a b/":                                   "not a URL",
			"http://a..b/":                                  "not a host name",
			"http://a;b/":                                   "not a host name",
			"http://inside.example/":                        "leads to a private",
			"http://localhost/":                             "private",
			"http://x.LOCALHOST:8080/":                      "private",
			"http://127.0.0.1/":                             "private",
			"http://10.1.2.3/":                              "private",
			"http://100.64.0.1/":                            "private",
			"http://169.254.169.254/latest":                 "private",
			"http://168.63.129.16/":                         "private",
			"http://0.0.0.0/":                               "private",
			"http://[::1]/":                                 "private",
			"http://[::]/":                                  "private",
			"http://[::ffff:10.0.0.1]/":                     "private",
			"http://[fe80::1]/":                             "private",
			"http://[fe80::1%25eth0]/":                      "zone",
			"http://[fd00:ec2::254]/":                       "private",
			"http://[64:ff9b::7f00:1]/":                     "private",
			"http://[2002:7f00:1::]/":                       "private",
			"http://127.1/":                                 "usual form",
			"http://2130706433/":                            "usual form",
			"http://0x7f.0.0.1/":                            "usual form",
			"http://0x7f000001/":                            "usual form",
			"http://127.0.0.0x1/":                           "usual form",
			"http://127.0.0.1./":                            "usual form",
			"http://１２７.０.０.１/":                             "usual form",
			"http://h.example/" + strings.Repeat("a", 2048): "at most 2048",
		} {
			err := w.sender.CheckURL(t.Context(), raw)
			require.ErrorIs(t, err, ErrURL, raw)
			require.ErrorContains(t, err, want, raw)
		}
	})
}

func TestCallbackReachesAllowedNetworks(t *testing.T) {
	allow := func(_ *Config, to *outward.Config) {
		to.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	}
	runTest(t, allow, func(t *testing.T, w *testEnv) {
		w.name("localhost", netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1"))
		for _, url := range []string{"http://127.0.0.1:9000/", "http://[fd00::7]/", "http://localhost:9000/"} {
			require.NoError(t, w.sender.CheckURL(t.Context(), url))
		}
		require.Error(t, w.sender.CheckURL(t.Context(), "http://10.0.0.1/"))
		w.receive("127.0.0.1:9000", status(200))
		w.finish("j1", "http://localhost:9000/")
		w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, []string{"127.0.0.1:9000"}, w.dialled)
	})
}

// A name that was public when the job was accepted and resolves to a private address when it ends gets no connection.
func TestCallbackIsSafeFromDNSRebinding(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		inside := w.receive("10.0.0.1:80", status(200))
		require.NoError(t, w.sender.CheckURL(t.Context(), receiverURL))
		w.name("hook.example", netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.1"))
		w.finish("j1", receiverURL)
		w.advance(2 * time.Second)
		log, err := w.store.CallbackLog("j1")
		require.NoError(t, err)
		require.Equal(t, outward.ErrForbidden.Error(), log[0].Error)
		require.Empty(t, w.dialled)
		require.Empty(t, inside.all())
		require.Equal(t, 2, w.lookups["hook.example"], "asked once for the check, and once for the attempt")

		w.name("hook.example", netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr(receiverAddr))
		w.receive(receiverAddr+":80", status(200))
		w.waitForState("j1", store.CallbackDelivered)
		require.Equal(t, []string{receiverAddr + ":80"}, w.dialled)
		require.Empty(t, inside.all())
	})
}

// The URL is checked again at delivery: a callback is not sent to a URL that is not acceptable any more.
func TestCallbackURLIsCheckedAgainAtDelivery(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		inside := w.receive("127.0.0.1:80", status(200))
		w.finish("j1", "http://127.0.0.1/")
		w.advance(2 * time.Second)
		log, err := w.store.CallbackLog("j1")
		require.NoError(t, err)
		require.Contains(t, log[0].Error, "private")
		require.Empty(t, inside.all())
	})
}

// A connection to another address than the dialled one is closed if that address is forbidden.
func TestCallbackChecksTheAddressItReached(t *testing.T) {
	astray := func(_ *Config, to *outward.Config) {
		dial := to.Dial
		to.Dial = func(ctx context.Context, local netip.Addr, network, _ string) (net.Conn, error) {
			return dial(ctx, local, network, "127.0.0.1:80")
		}
	}
	runTest(t, astray, func(t *testing.T, w *testEnv) {
		inside := w.receive("127.0.0.1:80", status(200))
		w.finish("j1", receiverURL)
		w.advance(2 * time.Second)
		log, err := w.store.CallbackLog("j1")
		require.NoError(t, err)
		require.Equal(t, outward.ErrForbidden.Error(), log[0].Error)
		require.Empty(t, inside.all())
	})
}

func TestCallbackReportsConnectionErrors(t *testing.T) {
	source := func(_ *Config, to *outward.Config) { to.Source = netip.MustParseAddr("198.41.9.9") }
	runTest(t, source, func(t *testing.T, w *testEnv) {
		w.name("six.example", netip.MustParseAddr("2606:4700::1"))
		w.name("two.example", netip.MustParseAddr("2606:4700::1"), netip.MustParseAddr("198.41.0.9"),
			netip.MustParseAddr(receiverAddr))
		from := make(chan string, 1)
		w.raw(receiverAddr+":80", func(_ int, conn net.Conn) {
			from <- conn.RemoteAddr().(*net.TCPAddr).IP.String()
			conn.Read(make([]byte, 10))
			conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		})
		for id, url := range map[string]string{
			"none": "http://nowhere.example/", "six": "http://six.example/", "refused": "http://198.41.0.9/",
			"two": "http://two.example/",
		} {
			w.finish(id, url)
		}
		w.waitForState("two", store.CallbackDelivered)
		w.advance(2 * time.Second)
		require.Equal(t, "198.41.9.9", <-from)
		for id, want := range map[string]string{"none": outward.ErrNoName.Error(), "six": "no address of the kind",
			"refused": "connection refused"} {
			log, err := w.store.CallbackLog(id)
			require.NoError(t, err)
			require.Contains(t, log[0].Error, want)
			require.NotContains(t, log[0].Error, "198.41")
		}
	})
}

func TestCallbackVerifiesCertificates(t *testing.T) {
	roots := x509.NewCertPool()
	trusting := func(cfg *Config, _ *outward.Config) { cfg.RootCAs = roots }
	runTest(t, trusting, func(t *testing.T, w *testEnv) {
		cert := selfSigned(t, "hook.example")
		roots.AddCert(cert.Leaf)
		w.names["other.example"] = w.names["hook.example"]
		ln, err := w.net.Listen(netip.MustParseAddrPort(receiverAddr + ":443"))
		require.NoError(t, err)
		box := w.serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert},
			NextProtos: []string{"h2", "http/1.1"}}),
			func(_ int, rw http.ResponseWriter, _ received) { rw.WriteHeader(200) })
		w.rows.n.Store(5000)
		w.finish("good", "https://hook.example/")
		w.finish("wrong", "https://other.example/")
		w.waitForState("good", store.CallbackDelivered)
		require.Len(t, box.all(), 1)
		require.Len(t, box.all()[0].event(t).Results, 5000)
		log, err := w.store.CallbackLog("wrong")
		require.NoError(t, err)
		require.Contains(t, log[0].Error, "certificate")
	})
}

// selfSigned makes a self-signed certificate for one name.
func selfSigned(t *testing.T, name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
