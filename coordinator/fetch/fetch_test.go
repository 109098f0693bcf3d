package fetch

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/outward"
	"probity/internal/memnet"
)

const (
	publicAddr  = "198.41.0.4"
	privateAddr = "10.0.0.1"
)

// testNet is a network in memory with servers, and a Fetcher.
type testNet struct {
	t       *testing.T
	net     *memnet.Network
	cert    tls.Certificate
	fetcher *Fetcher

	mu      sync.Mutex
	names   map[string][]netip.Addr // guarded by mu, as all below
	dialled []string
	asked   []*http.Request
}

// runTest runs a test in a synctest bubble. files.example is at publicAddr, and inside.example at privateAddr.
func runTest(t *testing.T, test func(t *testing.T, w *testNet)) {
	synctest.Test(t, func(t *testing.T) {
		w := &testNet{t: t, net: memnet.New(), names: map[string][]netip.Addr{
			"files.example":  {netip.MustParseAddr(publicAddr)},
			"inside.example": {netip.MustParseAddr(privateAddr), netip.MustParseAddr("::ffff:10.0.0.1")}}}
		roots := x509.NewCertPool()
		w.cert = selfSigned(t)
		roots.AddCert(w.cert.Leaf)
		w.fetcher = New(Config{RootCAs: roots, MaxBytes: 64 << 20, Dialer: outward.New(outward.Config{
			Dial: w.dial, Lookup: w.lookup})})
		test(t, w)
	})
}

// selfSigned makes a certificate for the servers of the network.
func selfSigned(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"files.example", "inside.example"},
		IPAddresses: []net.IP{net.ParseIP(publicAddr), net.ParseIP(privateAddr)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (w *testNet) dial(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, address)
	w.mu.Unlock()
	return w.net.DialFrom(local)(ctx, network, address)
}

func (w *testNet) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.names[host], nil
}

// name gives a name its addresses.
func (w *testNet) name(name string, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[name] = []netip.Addr{netip.MustParseAddr(addr)}
}

// serve starts a server at an address, until the end of the test. What it is asked is kept.
func (w *testNet) serve(addr string, handler http.HandlerFunc) {
	ln, err := w.net.Listen(netip.MustParseAddrPort(addr))
	require.NoError(w.t, err)
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(
		func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			w.asked = append(w.asked, r)
			w.mu.Unlock()
			handler(rw, r)
		})}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{w.cert}}))
	}()
	w.t.Cleanup(func() {
		_ = server.Close() // of connections that clients have closed
		<-ended
		<-time.After(stallTimeout) // for handlers that wait
	})
}

// fetch reads a file to its end.
func (w *testNet) fetch(rawURL string) ([]byte, error) {
	file, err := w.fetcher.Open(w.t.Context(), "u1", rawURL)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}

// version is a file that a server has, which it sends with ranges.
type version struct {
	tag     string
	content []byte
	cut     int // bytes after which the first answers are cut off; 0: none
}

// ServeHTTP cuts an answer off after v.cut bytes, unless its rest is shorter.
func (v *version) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("ETag", v.tag)
	if v.cut == 0 {
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(v.content))
		return
	}
	http.ServeContent(&cutWriter{rw, v.cut}, r, "", time.Time{}, bytes.NewReader(v.content))
}

// cutWriter ends the connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	c.left -= n
	if err == nil && c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush() // what was written arrives
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// content is a file of n bytes, each part of which is another.
func content(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "row %d\n", i)
	}
	return b.Bytes()[:n]
}

func TestFileIsFetched(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		file := &version{tag: `"v1"`, content: content(100_000)}
		w.serve(publicAddr+":443", file.ServeHTTP)
		w.serve(publicAddr+":8443", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://files.example/moved/list.csv", http.StatusFound)
		})
		for _, url := range []string{"https://files.example/a/list.csv?sign=secret#x", "https://FILES.example./list.csv",
			"https://" + publicAddr + "/list.csv", "https://files.example:8443/old?sign=secret"} {
			got, err := w.fetch(url)
			require.NoError(t, err, url)
			require.Equal(t, file.content, got)
		}
		for _, r := range w.asked {
			require.Empty(t, r.Header.Get("Referer"))
		}
		opened, err := w.fetcher.Open(t.Context(), "u1", "https://files.example/a/list%20x.csv?sign=secret")
		require.NoError(t, err)
		defer opened.Close()
		require.Equal(t, "list x.csv", opened.Name)
	})
}

// TestDisguisedPrivateAddressesAreRefused: no connection is made to any of them.
func TestDisguisedPrivateAddressesAreRefused(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		w.names["rebound.example"] = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		w.names["nat64.example"] = []netip.Addr{netip.MustParseAddr("64:ff9b::a00:1")}
		for _, host := range []string{
			"10.0.0.1", "127.0.0.1", "localhost", "x.localhost", "0.0.0.0", "169.254.169.254", "192.168.1.1",
			"100.64.0.1", // shared address space
			"2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.0.1.", "１２７.０.０.１",
			"[::1]", "[::]", "[::ffff:10.0.0.1]", "[::ffff:7f00:1]", "[fe80::1]", "[fe80::1%25eth0]", "[fd00:ec2::254]",
			"[64:ff9b::a00:1]", "[2002:a00:1::]", "[::10.0.0.1]", // NAT64, 6to4, IPv4-compatible
			"inside.example", "inside.example.", "rebound.example", "nat64.example",
			"files.example@10.0.0.1", "files.example:x@inside.example", // names in userinfo
			"files.example%2f@10.0.0.1", "10.0.0.1%00.files.example", "10.0.0.1%2f.files.example",
		} {
			_, err := w.fetch("https://" + host + "/list.csv")
			var refusal *Error
			require.ErrorAs(t, err, &refusal, host)
			require.NotContains(t, err.Error(), "no connection", host)
		}
		require.Empty(t, w.dialled)
		for _, url := range []string{"http://files.example/", "ftp://files.example/", "s3://bucket/list.csv",
			"file:///etc/passwd", "files.example", "https:files.example", "https://files.example:25/", ""} {
			_, err := w.fetch(url)
			require.ErrorAs(t, err, new(*Error), url)
		}
		require.Empty(t, w.dialled)
	})
}

// TestRedirectsAreChecked: a public server does not lead to a private address, to HTTP or in a circle.
func TestRedirectsAreChecked(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		to := ""
		w.serve(publicAddr+":443", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", to)
			rw.WriteHeader(http.StatusTemporaryRedirect)
		})
		w.serve(privateAddr+":443", (&version{content: content(10)}).ServeHTTP)
		for _, to = range []string{"https://10.0.0.1/", "https://inside.example/", "https://167772161/",
			"https://[::ffff:10.0.0.1]/", "https://files.example@10.0.0.1/", "//10.0.0.1/", "http://files.example/",
			"https://localhost/", "file:///etc/passwd", "https://files.example/again"} {
			_, err := w.fetch("https://files.example/")
			require.ErrorAs(t, err, new(*Error), to)
		}
		for _, address := range w.dialled {
			require.Equal(t, publicAddr+":443", address)
		}
	})
}

// TestDNSThatChangesIsChecked: a name is looked up for each connection, and what it leads to is checked.
func TestDNSThatChangesIsChecked(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		file := &version{tag: `"v1"`, content: content(1000), cut: 400}
		w.serve(publicAddr+":443", func(rw http.ResponseWriter, r *http.Request) {
			w.name("files.example", privateAddr)
			file.ServeHTTP(rw, r)
		})
		w.serve(privateAddr+":443", file.ServeHTTP)
		_, err := w.fetch("https://files.example/list.csv")
		require.ErrorContains(t, err, "private")
		require.Equal(t, []string{publicAddr + ":443"}, w.dialled)
	})
}

// TestAddressOfTheConnectionIsChecked: a dialler that goes astray reaches no private address.
func TestAddressOfTheConnectionIsChecked(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		w.serve(privateAddr+":443", (&version{content: content(10)}).ServeHTTP)
		w.fetcher = New(Config{Dialer: outward.New(outward.Config{Lookup: w.lookup,
			Dial: func(ctx context.Context, _ netip.Addr, network, _ string) (net.Conn, error) {
				return w.net.Dial(ctx, network, privateAddr+":443")
			}})})
		_, err := w.fetch("https://files.example/list.csv")
		require.ErrorContains(t, err, "private")
		require.Empty(t, w.asked)
	})
}

// TestLostConnectionIsResumed: a file whose connection is lost again and again is exact, and read once.
func TestLostConnectionIsResumed(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		file := &version{tag: `"v1"`, content: content(1_000_000), cut: 70_000}
		w.serve(publicAddr+":443", file.ServeHTTP)
		got, err := w.fetch("https://files.example/list.csv")
		require.NoError(t, err)
		require.True(t, bytes.Equal(file.content, got))
		require.Greater(t, len(w.asked), 10)
		for _, r := range w.asked[1:] {
			require.Regexp(t, `^bytes=[1-9]\d*-$`, r.Header.Get("Range"))
			require.Equal(t, file.tag, r.Header.Get("If-Range"))
		}
	})
}

// TestStalledConnectionIsResumed: a server that stops sending is asked again.
func TestStalledConnectionIsResumed(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		file := &version{tag: `"v1"`, content: content(1000)}
		w.serve(publicAddr+":443", func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "" {
				file.ServeHTTP(rw, r)
				return
			}
			rw.Header().Set("ETag", file.tag)
			rw.Header().Set("Content-Length", "1000")
			_, _ = rw.Write(file.content[:500])
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		})
		got, err := w.fetch("https://files.example/list.csv")
		require.NoError(t, err)
		require.Equal(t, file.content, got)
	})
}

// TestOtherVersionIsNotJoined: a file that changes while it is read, or may have, is refused.
func TestOtherVersionIsNotJoined(t *testing.T) {
	one, other := content(1000), bytes.ToUpper(content(1000))
	first := func(tag string) http.HandlerFunc { return (&version{tag: tag, content: one, cut: 400}).ServeHTTP }
	header := func(status int, name, value string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("ETag", `"v1"`)
			rw.Header().Set(name, value)
			rw.WriteHeader(status)
			_, _ = rw.Write(other[400:])
		}
	}
	for name, c := range map[string]struct {
		first, second http.HandlerFunc
		want          string
	}{
		"another version":     {first(`"v1"`), (&version{tag: `"v2"`, content: other}).ServeHTTP, "changed the file"},
		"without an ETag":     {first(""), (&version{content: one}).ServeHTTP, "without an ETag it cannot be resumed"},
		"with a weak ETag":    {first(`W/"v1"`), (&version{tag: `W/"v1"`, content: one}).ServeHTTP, "without an ETag"},
		"no ranges":           {first(`"v1"`), header(200, "ETag", `"v1"`), "it cannot resume"},
		"another range":       {first(`"v1"`), header(206, "Content-Range", "bytes 300-899/1000"), "changed the file"},
		"no range":            {first(`"v1"`), header(206, "Content-Range", ""), "changed the file"},
		"another size":        {first(`"v1"`), header(206, "Content-Range", "bytes 400-999/2000"), "changed the file"},
		"another ETag in 206": {first(`"v1"`), header(206, "ETag", `"v2"`), "changed the file"},
		"shorter now":         {first(`"v1"`), header(416, "Content-Range", "bytes */300"), "changed the file"},
		"gone":                {first(`"v1"`), header(404, "X", ""), "answers 404 Not Found after 400 bytes"},
		"never back":          {first(`"v1"`), header(503, "X", ""), "could not be resumed"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(t *testing.T, w *testNet) {
				requests := 0
				w.serve(publicAddr+":443", func(rw http.ResponseWriter, r *http.Request) {
					requests++
					if requests == 1 {
						c.first(rw, r)
						return
					}
					c.second(rw, r)
				})
				got, err := w.fetch("https://files.example/list.csv")
				require.ErrorContains(t, err, c.want)
				require.ErrorAs(t, err, new(*Error))
				require.Equal(t, one[:400], got)
				require.LessOrEqual(t, requests, 1+maxResumes)
			})
		})
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"not there": {http.NotFound, "its server answers 404 Not Found"},
		"too long":  {(&version{content: make([]byte, 64<<20+1)}).ServeHTTP, "the file is over 67108864 bytes"},
		"too long, in chunks": {func(rw http.ResponseWriter, _ *http.Request) {
			for range 65 {
				_, _ = rw.Write(make([]byte, 1<<20))
			}
		}, "the file is over 67108864 bytes"},
		"without an end": {func(rw http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nemail\na@x.org\n")
			_ = conn.Close()
		}, "does not say how long the file is"},
		"no HTTP": {func(rw http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = io.WriteString(conn, "220 mail.example ESMTP\r\n")
			_ = conn.Close()
		}, "did not answer with HTTP over TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(t *testing.T, w *testNet) {
				w.serve(publicAddr+":443", c.answer)
				_, err := w.fetch("https://files.example/list.csv?sign=secret")
				var refusal *Error
				require.ErrorAs(t, err, &refusal)
				require.ErrorContains(t, err, c.want)
				require.Equal(t, strings.HasPrefix(name, "too long"), refusal.TooLarge)
				require.NotContains(t, err.Error(), "secret")
			})
		})
	}
	runTest(t, func(t *testing.T, w *testNet) {
		w.names["other.example"] = []netip.Addr{netip.MustParseAddr(publicAddr)}
		_, err := w.fetch("https://files.example/")
		require.EqualError(t, err, "no connection: connection refused")
		w.serve(publicAddr+":443", http.NotFound)
		_, err = w.fetch("https://other.example/")
		require.ErrorContains(t, err, "certificate")
		_, err = w.fetch("https://nowhere.example/")
		require.EqualError(t, err, "the host name does not resolve")
	})
}

// TestFilesAtOneTimeAreBounded, for each account and for all; a file that is closed makes room.
func TestFilesAtOneTimeAreBounded(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		w.serve(publicAddr+":443", (&version{tag: `"v1"`, content: content(10)}).ServeHTTP)
		open := func(account string) (*File, error) {
			return w.fetcher.Open(t.Context(), account, "https://files.example/")
		}
		var all []*File
		for _, account := range []string{"u1", "u1", "u2", "u3"} {
			file, err := open(account)
			require.NoError(t, err)
			all = append(all, file)
			_, err = open("u1")
			if len(all) > 1 {
				require.ErrorIs(t, err, ErrBusy)
			} else {
				require.NoError(t, err)
				w.fetcher.release("u1")
			}
		}
		_, err := open("u4")
		require.ErrorIs(t, err, ErrBusy)
		for _, file := range all {
			require.NoError(t, file.Close())
		}
		file, err := open("u4")
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Zero(t, w.fetcher.open)
		require.Empty(t, w.fetcher.account)
	})
}

// TestSlowFileEnds after two hours, however often it goes on.
func TestSlowFileEnds(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		w.serve(publicAddr+":443", func(rw http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = rw.Write(make([]byte, stallBytes))
				_ = http.NewResponseController(rw).Flush()
				<-time.After(stallTimeout / 2)
			}
		})
		began := time.Now()
		_, err := w.fetch("https://files.example/")
		require.ErrorContains(t, err, "the file took over 2h0m0s")
		require.Equal(t, maxTime, time.Since(began))
	})
}

// TestMemoryIsFlat over a file of 64 MiB.
func TestMemoryIsFlat(t *testing.T) {
	runTest(t, func(t *testing.T, w *testNet) {
		piece := make([]byte, 64<<10)
		w.serve(publicAddr+":443", func(rw http.ResponseWriter, _ *http.Request) {
			for range 1000 {
				_, _ = rw.Write(piece)
			}
		})
		file, err := w.fetcher.Open(t.Context(), "u1", "https://files.example/")
		require.NoError(t, err)
		defer file.Close()
		got := make([]byte, len(piece))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for err == nil {
			_, err = io.ReadFull(file, got)
			runtime.ReadMemStats(&after)
			require.Less(t, after.HeapAlloc, before.HeapAlloc+32<<20)
		}
		require.ErrorIs(t, err, io.EOF)
	})
}
