package api

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// formMemory bounds what any form may allocate until it is refused: mostly the buffers of the connection and of the
// parser.
const formMemory = 4 << 20

// formPart is a form's part with a header of our own.
func formPart(lines string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"l.csv\"" + lines +
		"\r\n\r\nemail\nann@shop.test\r\n"
}

// TestFormBombs: forms that try to fill memory are refused, and little of them is kept.
func TestFormBombs(t *testing.T) {
	w := newTestServer(t, nil)
	big := strings.Repeat("x", 8<<20)
	names := ""
	for i := range 60 {
		names += fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=\"%d%s\"\r\n\r\n\r\n", i, big[:1<<20])
	}
	for name, body := range map[string]string{
		"a header of megabytes": formPart("\r\nX-Long: " + big),
		"many headers":          formPart(strings.Repeat("\r\nX-A: b", 100_000)),
		"a name of megabytes":   "--b\r\nContent-Disposition: form-data; name=\"" + big + "\"\r\n\r\n\r\n--b--\r\n",
		"many long names":       names + "--b--\r\n",
		"words before the form": big,
		"lines before the form": strings.Repeat("x\r\n", 1<<20),
		"a thousand parts": strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n\r\n",
			1000) + "--b--\r\n",
		"a form in a form":         "--b\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n" + strings.Repeat("--c\r\n\r\n", 50_000) + "--b--\r\n",
		"boundaries without parts": strings.Repeat("--b\r\n", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			r := w.do(request{method: "POST", path: "/v1/verify/bulk", key: w.key,
				body:   onlyReader{strings.NewReader(body)},
				header: map[string]string{"Content-Type": "multipart/form-data; boundary=b"}})
			runtime.ReadMemStats(&now)
			require.Contains(t, []int{400, 422}, r.status, "%s", r.body)
			r.detail(t)
			require.Less(t, now.TotalAlloc-before.TotalAlloc, uint64(formMemory),
				"bytes allocated, the client's among them")
		})
	}
	require.Zero(t, w.jobFolderCount())
	w.requireNoScratch()
	require.Equal(t, store.Credits{Balance: initialCredits}, w.credits())
}

// onlyReader has no size, so that it is sent in chunks.
type onlyReader struct{ io.Reader }

// TestDocumentBombs: documents that are costly to parse are refused with the right reason.
func TestDocumentBombs(t *testing.T) {
	w := newTestServer(t, nil)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"deep arrays":  {strings.Repeat("[", 30_000), 400},
		"deep objects": {strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), 400},
		"deep, next to the e-mail": {`{"email":"ann@shop.test","x":` + strings.Repeat("[", 20_000) +
			strings.Repeat("]", 20_000) + "}", 400},
		"too long":             {`{"email":"` + strings.Repeat("a", 70<<10) + `"}`, 413},
		"a number without end": {`{"email":"ann@shop.test","timeout":` + strings.Repeat("9", 60_000) + "}", 422},
		"ten thousand members": {`{"email":"eve` + strings.Repeat(`","email":"ann`, 4000) + `@shop.test"}`, 422},
	} {
		r := w.single(c.body)
		require.Equal(t, c.status, r.status, "%s: %s", name, r.body)
		r.detail(t)
	}
}

// TestMisleadingUnicodeIsHandled: characters that look like others, are invisible, reverse the line or are invalid
// neither pass for what they look like nor get where they could do harm.
func TestMisleadingUnicodeIsHandled(t *testing.T) {
	w := newTestServer(t, nil)
	for _, email := range []string{
		"ann@shop.test\u202e", "ann\u200b@shop.test", "ann@sh\u00adop.test", "ann@shop\u2024test", "ann\uff20shop.test",
		"ann@shop.test\u0000",
		"\ufeffann@shop.test", "ann@shop.test\u2028", "a\u0301nn@sh\u043ep.test\u200d",
		"ann@[\uff11\uff12\uff17.0.0.1]", "ann@shop\u3002\u3002test",
		"ann@\u2100.test", "ann@xn--a.test", "ann@xn--\u00e9.test", "ann\r\nRCPT TO:<bob@shop.test>@shop.test",
		"ann@shop.test>\r\nDATA",
	} {
		body := fmt.Sprintf(`{"email":%s}`, asciiJSON(email))
		r := w.single(body)
		require.Contains(t, []int{200, 400, 422}, r.status, "%q: %s", email, r.body)
		if r.status == 200 {
			require.NotEqual(t, "ann@shop.test", r.json(t)["email"], "%q passes for another", email)
		}
		for _, b := range r.body {
			require.GreaterOrEqual(t, b, byte(' '), "%q comes back raw", email)
		}
	}
	for _, raw := range []string{"ann@shop.test\xc0\xae", "ann\xed\xa0\x80@shop.test",
		"ann\xf8\x88\x80\x80\x80@shop.test", "\xffann@shop.test"} {
		r := w.single(`{"email":"` + raw + `"}`)
		require.Equal(t, 400, r.status, "%q is no UTF-8", raw)
	}
	r := w.upload(w.key, nil, part{"name", "", "\u202efsc.tsil\x1b[2J\r\nSet-Cookie: a=b"},
		part{"file", "../../etc/passwd\u202e\r\nX: y", "email\nann@shop.test\n"})
	if r.status == 202 {
		job := w.waitForJob(w.key, r.json(t)["job_id"].(string))
		name, _ := job["filename"].(string)
		require.False(t, strings.ContainsAny(name, "/\\\r\n"), name)
		got := w.get("/v1/verify/bulk/"+job["job_id"].(string)+"/results", w.key)
		require.NotContains(t, strings.Join(got.header["Content-Disposition"], ""), "/")
		require.Empty(t, got.header.Get("Set-Cookie"))
	}
	for _, b := range []byte(w.log.String()) {
		require.True(t, b >= ' ' || b == '\n', "a control character in the log")
	}
}

// asciiJSON is a JSON string in ASCII.
func asciiJSON(s string) string {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	b.WriteByte('"')
	return b.String()
}

// TestForeignAndUnknownIDsAnswerAlike: ids of another account, deleted ones and ones that never existed get the same
// answer on every route with an id, and a guess counts only against the limit of the guessing account.
func TestForeignAndUnknownIDsAnswerAlike(t *testing.T) {
	w := newTestServer(t, nil)
	_, otherKey := w.addCustomer("stranger@probity.test", 10)
	id := w.uploadAndWait(w.key, part{"file", "l.csv", "email\nann@shop.test\n"})["job_id"].(string)
	for _, endpoint := range []struct{ method, path string }{
		{"GET", ""}, {"GET", "/results"}, {"GET", "/callback"}, {"POST", "/cancel"}, {"POST", "/pause"},
		{"POST", "/resume"}, {"DELETE", ""},
	} {
		var want reply
		for i, guess := range []string{id, id[:len(id)-1] + "0", strings.Repeat("0", len(id)), "1", "null",
			strings.Repeat("f", 4000), "a%00b"} {
			r := w.do(request{method: endpoint.method, path: "/v1/verify/bulk/" + guess + endpoint.path, key: otherKey})
			if i == 0 {
				want = r
				require.Equal(t, 404, r.status, "%s %s", endpoint.method, endpoint.path)
			}
			if len(guess) == len(id) {
				require.Equal(t, string(want.body), string(r.body), "%s %s tells whether it exists", endpoint.method,
					endpoint.path)
			}
			require.Contains(t, []int{400, 404}, r.status, "%s %s %s: %s", endpoint.method, guess, endpoint.path,
				r.body)
			require.NotContains(t, string(r.body), guess[:1]+id[1:], "an id is repeated")
		}
	}
	require.Equal(t, 200, w.get("/v1/verify/bulk/"+id, w.key).status, "its owner has lost nothing")
}
