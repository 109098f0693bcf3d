package api

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/httpd"
)

// smuggledRequest is a request inside the body of another. A server that answers it has lost the end of the body.
const smuggledRequest = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"

// lastRequest is a request that follows it, and ends the connection.
const lastRequest = "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

// sendSmuggled sends a request followed by lastRequest and returns its answer. Only the answer to lastRequest may
// follow, unless the connection was closed.
func (w *testServer) sendSmuggled(text, name string) reply {
	w.t.Helper()
	got := parseResponses(w.t, w.raw(text+lastRequest))
	require.NotEmpty(w.t, got, name)
	require.LessOrEqual(w.t, len(got), 2, name)
	if len(got) == 2 {
		require.False(w.t, got[0].closed, name)
		require.Contains(w.t, string(got[1].body), "ready", name)
	}
	return got[0]
}

func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(s), s) }

// A streamed body that no handler reads must never be parsed as the next request.
func TestUnreadBodyIsNotParsed(t *testing.T) {
	w := newTestServer(t, nil)
	big := strings.Repeat(smuggledRequest, 20000) // more than skipBody reads
	for _, c := range []struct {
		name, head string
		status     int
	}{
		{"not found", "POST /nothing HTTP/1.1\r\nHost: x\r\n", 404},
		{"wrong method", "POST /healthz HTTP/1.1\r\nHost: x\r\n", 405},
		{"no key", "POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n", 401},
		{"no key, upload", "POST /v1/verify/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n", 401},
		{"wrong type", "POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.key +
			"\r\nContent-Type: text/plain\r\n", 415},
		{"GET with a body", "GET /v1/reasons HTTP/1.1\r\nHost: x\r\n", 422},
		{"handler stops early", "POST /v1/verify/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.key +
			"\r\nContent-Type: multipart/form-data; boundary=b\r\n", 400},
		{"unknown expectation", "POST /nothing HTTP/1.1\r\nHost: x\r\nExpect: the unexpected\r\n", 404},
	} {
		for _, body := range []string{smuggledRequest, smuggledRequest + smuggledRequest + smuggledRequest, big} {
			for _, framing := range []string{
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
				"Transfer-Encoding: chunked\r\n\r\n" + chunked(body),
			} {
				got := w.sendSmuggled(c.head+framing, c.name)
				require.Equal(t, c.status, got.status, "%s: %s", c.name, got.body)
			}
		}
	}
}

func TestShortUnreadBodyKeepsTheConnection(t *testing.T) {
	w := newTestServer(t, nil)
	head := fmt.Sprintf("POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(smuggledRequest), smuggledRequest)
	got := parseResponses(t, w.raw(head+lastRequest))
	require.Len(t, got, 2)
	require.Equal(t, []int{401, 200}, []int{got[0].status, got[1].status})
}

func TestExpectContinue(t *testing.T) {
	w := newTestServer(t, nil)
	body := `{"email":"ann@shop.test"}`
	head := func(key, expect string, n int) string {
		return fmt.Sprintf("POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nExpect: %s\r\nContent-Length: %d\r\n\r\n", key, expect, n)
	}
	t.Run("accepted", func(t *testing.T) {
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprint(c, head(w.key, "100-continue", len(body)))
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
		_, err = r.ReadString('\n')
		require.NoError(t, err)
		fmt.Fprint(c, body)
		res, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
	})
	t.Run("refused without asking for the body", func(t *testing.T) {
		for _, text := range []string{head("prb_live_x", "100-continue", len(body)),
			head("prb_live_x", "100-Continue", len(smuggledRequest)) + smuggledRequest,
			head("", "100-continue", 1<<40)} {
			got := parseResponses(t, w.raw(text))
			require.Len(t, got, 1)
			require.Equal(t, 401, got[0].status)
			require.Equal(t, "Bearer", got[0].header.Get("WWW-Authenticate"))
			got[0].detail(t)
		}
		got := parseResponses(t, w.raw(head(w.key, "100-continue", httpd.MaxJSON+1)))
		require.Equal(t, 413, got[0].status)
	})
	t.Run("counts once", func(t *testing.T) {
		before := w.single(body).header.Get("RateLimit-Remaining")
		w.do(request{method: "POST", path: "/v1/verify/single", key: w.key, body: strings.NewReader(body),
			header: map[string]string{"Content-Type": "application/json", "Expect": "100-continue"}})
		after := w.single(body).header.Get("RateLimit-Remaining")
		var b, a int
		fmt.Sscan(before, &b)
		fmt.Sscan(after, &a)
		require.Equal(t, 2, b-a)
	})
}

// A header that proxies and servers may parse differently is refused, at a path that otherwise works, and what follows
// is not read.
func TestAmbiguousFraming(t *testing.T) {
	w := newTestServer(t, nil)
	const body = `{"email":"ann@shop.test"}`
	head := "POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.key +
		"\r\nContent-Type: application/json\r\n"
	length, coded := fmt.Sprintf("Content-Length: %d\r\n", len(body)), "Transfer-Encoding: chunked\r\n"
	require.Equal(t, 200, w.sendSmuggled(head+length+"\r\n"+body, "plain").status)
	require.Equal(t, 200, w.sendSmuggled(head+coded+"\r\n"+chunked(body), "chunks").status)
	for name, text := range map[string]string{
		"length and chunks":     head + length + coded + "\r\n" + chunked(body),
		"chunks and length":     head + coded + "content-length: 4\r\n\r\n" + chunked(body),
		"length and identity":   head + length + "Transfer-Encoding: identity\r\n\r\n" + body,
		"chunks of length 0":    head + "Content-Length: 0\r\n" + coded + "\r\n0\r\n\r\n" + smuggledRequest,
		"folded":                head + "X-A: a\r\n b\r\n" + length + "\r\n" + body,
		"folded by a tab":       head + "X-A: a\r\n\tb\r\n" + length + "\r\n" + body,
		"folded length":         head + "Content-Length:\r\n 25\r\n\r\n" + body,
		"folded coding":         head + "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunked(body),
		"bare LF":               head + "X-A: a\n" + length + "\r\n" + body,
		"bare LF and a length":  head + "X-A: a\nContent-Length: 25\r\n\r\n" + body,
		"bare CR":               head + "X-A: a\rX-B: b\r\n" + length + "\r\n" + body,
		"bare LF after a chunk": head + coded + "\r\n19\r\n" + body + "\n0\r\n\r\n",
		"two lengths":           head + "Content-Length: 0\r\nContent-Length: 36\r\n\r\n" + smuggledRequest,
		"two codings":           head + coded + coded + "\r\n" + chunked(body),
		"chunks written oddly":  head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + smuggledRequest,
		"another coding":        head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + smuggledRequest,
		"identity alone":        head + "Transfer-Encoding: identity\r\n\r\n" + body,
		"chunk of no size":      head + coded + "\r\nxyz\r\n" + smuggledRequest,
		"length of no number":   head + "Content-Length: +4\r\n\r\nabcd" + smuggledRequest,
		"chunks in HTTP/1.0":    strings.Replace(head, "1.1", "1.0", 1) + coded + "\r\n" + chunked(smuggledRequest),
		"length below its body": head + "Content-Length: 99999999999999999999\r\n\r\n" + smuggledRequest,
	} {
		got := parseResponses(t, w.raw(text+lastRequest))
		require.Len(t, got, 1, name)
		require.Equal(t, 400, got[0].status, "%s: %s", name, got[0].body)
		require.True(t, got[0].closed, name)
		got[0].detail(t)
	}
	require.EqualValues(t, initialCredits-2, w.credits().Balance)
}

func TestBodyLimits(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.MaxUpload = 100_000 })
	long := `{"email":"` + strings.Repeat("a", httpd.MaxJSON) + `"}`
	t.Run("JSON by length", func(t *testing.T) {
		r := w.single(long)
		require.Equal(t, 413, r.status)
		require.True(t, r.closed)
		r.detail(t)
	})
	t.Run("JSON in chunks", func(t *testing.T) {
		r := w.do(request{method: "POST", path: "/v1/verify/single", key: w.key,
			body:   io.MultiReader(strings.NewReader(long)),
			header: map[string]string{"Content-Type": "application/json"}})
		require.Equal(t, 413, r.status, "%s", r.body)
		r.detail(t)
	})
	t.Run("just fits", func(t *testing.T) {
		fits := `{"email":"ann@shop.test"` + strings.Repeat(" ", httpd.MaxJSON-len(`{"email":"ann@shop.test"}`)) + `}`
		require.Len(t, fits, httpd.MaxJSON)
		for _, body := range []io.Reader{strings.NewReader(fits), io.MultiReader(strings.NewReader(fits))} {
			r := w.do(request{method: "POST", path: "/v1/verify/single", key: w.key, body: body,
				header: map[string]string{"Content-Type": "application/json"}})
			require.Equal(t, 200, r.status, "%s", r.body)
		}
	})
	t.Run("upload in chunks", func(t *testing.T) {
		body, kind := encodeForm(part{"file", "l.csv", "email\n" + strings.Repeat("ann@shop.test\n", 20000)})
		r := w.do(request{method: "POST", path: "/v1/verify/bulk", key: w.key,
			body: io.MultiReader(strings.NewReader(body)), header: map[string]string{"Content-Type": kind}})
		require.Equal(t, 413, r.status, "%s", r.body)
		r.detail(t)
	})
}

// A stream of known length ends without an error when the client closes: what arrived must not pass for the whole.
func TestTruncatedBody(t *testing.T) {
	w := newTestServer(t, nil)
	for _, framing := range []string{"Content-Length: 100\r\n\r\n" + `{"email":"ann@shop.test"}`,
		"Transfer-Encoding: chunked\r\n\r\n19\r\n" + `{"email":"ann@shop.test"}` + "\r\n"} {
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		fmt.Fprintf(c, "POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s", w.key, framing)
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		b, err := io.ReadAll(c)
		require.NoError(t, err)
		got := parseResponses(t, string(b))
		require.Len(t, got, 1, "%q", b)
		require.Equal(t, 400, got[0].status)
		got[0].detail(t)
		c.Close()
	}
	require.EqualValues(t, initialCredits, w.credits().Balance)
	require.Zero(t, w.prober.requests.Load())
}

func TestSlowClients(t *testing.T) {
	w := newTestServer(t, func(c *Config) {
		c.HeaderTimeout, c.IdleTimeout, c.StallTimeout = 200*time.Millisecond, 200*time.Millisecond,
			300*time.Millisecond
	})
	key := w.key
	upload := "POST /v1/verify/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key +
		"\r\nContent-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n"
	t.Run("header, body and upload that stop", func(t *testing.T) {
		for _, text := range []string{
			"GET /healthz HTTP/1.1\r\nHost: x\r\n",
			"POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.key +
				"\r\nContent-Type: application/json\r\nContent-Length: 25\r\n\r\n{",
			"POST /v1/verify/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.key +
				"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
			upload + chunkOf("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"l.csv\"\r\n\r\nemail\n"),
		} {
			got := parseResponses(t, w.raw(text))
			require.Len(t, got, 1, "%q", text)
			require.Equal(t, 400, got[0].status)
			require.True(t, got[0].closed)
			require.Contains(t, got[0].detail(t), "timed out")
		}
	})
	t.Run("an upload may take longer than a header", func(t *testing.T) {
		w := newTestServer(t, func(c *Config) {
			c.HeaderTimeout, c.StallTimeout = 200*time.Millisecond,
				20*time.Second
		})
		upload := strings.Replace(upload, "Bearer "+key, "Bearer "+w.key, 1)
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprint(c, upload, chunkOf("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"l.csv\"\r\n\r\nemail\n"))
		tick := time.NewTicker(150 * time.Millisecond)
		defer tick.Stop()
		for range 6 {
			<-tick.C
			fmt.Fprint(c, chunkOf(strings.Repeat("ann@shop.test\n", 2*(16<<10)/14)))
		}
		fmt.Fprint(c, chunkOf("\r\n--b--\r\n"), "0\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, 202, res.StatusCode)
	})
	t.Run("a client that says nothing is told nothing", func(t *testing.T) {
		require.Empty(t, w.raw(""))
	})
	t.Run("idle", func(t *testing.T) {
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprint(c, smuggledRequest)
		b, err := io.ReadAll(c)
		require.NoError(t, err, "the server hangs up")
		require.Len(t, parseResponses(t, string(b)), 1)
	})
}

func chunkOf(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func TestHeaderTooLarge(t *testing.T) {
	w := newTestServer(t, nil)
	got := parseResponses(t, w.raw("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("a", 20<<10)+
		"\r\n\r\n"))
	require.Len(t, got, 1)
	require.Equal(t, 400, got[0].status)
	require.Contains(t, got[0].detail(t), "header")
}

func TestMalformedRequests(t *testing.T) {
	w := newTestServer(t, nil)
	for _, text := range []string{"\x16\x03\x01\x02\x00\x01\x00\x01", "GET\r\n\r\n", "GET / HTTP/x\r\n\r\n",
		"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
		"GET / HTTP/1.1\r\n folded: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n"} {
		for _, r := range parseResponses(t, w.raw(text)) {
			require.Equal(t, 400, r.status, "%q", text)
			r.detail(t)
		}
	}
}

// Permissions are checked on the path as it was sent: a path that a router would clean up matches no route.
func TestPathsAreNotNormalized(t *testing.T) {
	w := newTestServer(t, nil)
	for _, target := range []string{"//v1/credits", "/v1//credits", "/v1/./credits", "/healthz/../v1/credits",
		"/v1/credits/", "/v1/%63redits", "/V1/credits",
		"/v1/verify%2fsingle", "/v1/credits%00", "/v1/credits;x", "/v1/verify/bulk/", "/v1/verify/bulk/../public",
		"/v1/verify/bulk/%2e%2e/results/x", "/app//", "/assets/"} {
		got := parseResponses(t, w.raw("GET "+target+
			" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+w.key+"\r\n\r\n"))
		require.Len(t, got, 1, target)
		require.Equal(t, 404, got[0].status, target)
		got[0].detail(t)
	}
	got := parseResponses(t, w.raw("GET http://probity.test/v1/credits HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+w.key+"\r\n\r\n"))
	require.Equal(t, 200, got[0].status, "absolute form (RFC 9112, section 3.2.2)")
}

func TestConnectionsPerAddress(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.MaxConnsPerIP = 2 })
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		defer c.Close()
		fmt.Fprint(c, smuggledRequest)
		_, err = http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		open = append(open, c)
	}
	c, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer c.Close()
	b, _ := io.ReadAll(c)
	got := parseResponses(t, string(b))
	require.Len(t, got, 1)
	require.Equal(t, 429, got[0].status)
	require.Equal(t, "1", got[0].header.Get("Retry-After"))
	got[0].detail(t)
	open[0].Close()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			return false
		}
		defer c.Close()
		fmt.Fprint(c, smuggledRequest)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		return err == nil && res.StatusCode == 200
	}, 5*time.Second, 10*time.Millisecond)
}

// A client that still sends gets our answer, not a reset.
func TestEarlyAnswerReachesUploadingClient(t *testing.T) {
	w := newTestServer(t, nil)
	c, err := net.Dial("tcp", w.addr)
	require.NoError(t, err)
	defer c.Close()
	body := strings.Repeat("x", 8<<20)
	fmt.Fprintf(c, "POST /v1/verify/bulk HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n", len(body))
	_, err = io.WriteString(c, body)
	require.NoError(t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, 401, res.StatusCode)
}
