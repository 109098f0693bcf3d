package callback

import (
	"encoding/json"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func TestHeadersOfAJobAreSent(t *testing.T) {
	runTest(t, nil, func(t *testing.T, w *testEnv) {
		box := w.receive(receiverAddr+":80", status(204))
		headers, err := ParseHeaders(`{"authorization": "Bearer s3cret", "X-Tenant":"7", "User-Agent": "ours/1"}`)
		require.NoError(t, err)
		w.finish("j1", receiverURL, func(j *store.Job) { j.CallbackHeaders = headers })
		_, log := w.waitForState("j1", store.CallbackDelivered)
		require.Len(t, box.all(), 1)
		got := box.all()[0].header
		require.Equal(t, []string{"Bearer s3cret"}, got.Values("Authorization"))
		require.Equal(t, []string{"7"}, got.Values("X-Tenant"))
		require.Equal(t, []string{"ours/1"}, got.Values("User-Agent"), "it replaces ours")
		require.Equal(t, "application/json", got.Get("Content-Type"))
		require.NotContains(t, log[0].Error, "s3cret")
	})
}

func TestReservedHeadersAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                              "JSON object",
		``:                                "JSON object",
		`{`:                               "not JSON",
		`{"a":"b"`:                        "not JSON",
		`{"a":"b",}`:                      "not JSON",
		`{"a":"b"} {}`:                    "follows",
		`{}`:                              "1 to 10",
		`{"X-A":1}`:                       `"X-A"`,
		`{"X-A":{"b":"c"}}`:               `"X-A"`,
		`{"X-A":"1","x-a":"2"}`:           "X-A is there twice",
		`{"host":"evil"}`:                 "Host",
		`{"Connection":"upgrade"}`:        "Connection",
		`{"te":"trailers"}`:               "Te",
		`{"Transfer-Encoding":"chunked"}`: "Transfer-Encoding",
		`{"Proxy-Authorization":"x"}`:     "Proxy-Authorization",
		`{"content-length":"5"}`:          "Content-Length",
		`{"Content-Encoding":"gzip"}`:     "Content-Encoding",
		`{"webhook-signature":"v1,x"}`:    "Webhook-Signature",
		`{"WEBHOOK-other":"x"}`:           "Webhook-Other",
		`{"":"x"}`:                        `""`,
		`{"X A":"x"}`:                     `"X A"`,
		`{"X-A:":"x"}`:                    `"X-A:"`,
		`{"X-A\r\nHost":"x"}`:             "name of a header",
		`{"X-A":"hunter2\r\nHost: evil"}`: "X-A",
		`{"X-A":"hunter2é"}`:              "X-A",
		`{"X-A":" hunter2"}`:              "X-A",
		`{"X-A":""}`:                      "X-A",
		`{"A":"1","B":"1","C":"1","D":"1","E":"1","F":"1","G":"1","H":"1","I":"1","J":"1","K":"1"}`: "1 to 10",
	} {
		_, err := ParseHeaders(text)
		require.ErrorIs(t, err, ErrHeaders, text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter2", text)
	}
}

// What ParseHeaders accepts is one line of a request for each header, and none that the sender sets.
func FuzzParseHeaders(f *testing.F) {
	f.Add(`{"Authorization":"Bearer x"}`)
	f.Add(`{"X-A":"a\tb","x-b":"1"}`)
	f.Add(`{"Host":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		headers, err := ParseHeaders(text)
		if err != nil {
			require.ErrorIs(t, err, ErrHeaders)
			return
		}
		require.True(t, json.Valid([]byte(text)))
		out := http.Header{}
		for name, value := range headers {
			require.Equal(t, textproto.CanonicalMIMEHeaderKey(name), name)
			require.NotContains(t, []string{"Host", "Content-Length", "Transfer-Encoding", "Connection"}, name)
			out.Set(name, value)
		}
		var lines strings.Builder
		require.NoError(t, out.Write(&lines))
		require.Equal(t, len(headers), strings.Count(lines.String(), "\n"))
	})
}
