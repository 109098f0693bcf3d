package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

// answers answers each request with the next of its functions.
type answers struct {
	next     []func() *http.Response
	requests []*http.Request
	bodies   []string
}

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.requests = append(a.requests, r)
	body := ""
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(b)
	}
	a.bodies = append(a.bodies, body)
	answer := a.next[0]()
	a.next = a.next[1:]
	if answer == nil {
		return nil, io.ErrUnexpectedEOF
	}
	answer.Request = r
	return answer, nil
}

// answer is an answer with a status, a Retry-After unless empty, and a body.
func answer(status int, retryAfter, body string) func() *http.Response {
	return func() *http.Response {
		w := httptest.NewRecorder()
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return w.Result()
	}
}

func broken() *http.Response { return nil }

func clientOf(next ...func() *http.Response) (*Client, *answers) {
	a := &answers{next: next}
	c := New("https://verify.example.org/", "secret")
	c.HTTP = &http.Client{Transport: a}
	return c, a
}

// TestCallsAreTriedAgain: a limit, a failure and a lost connection are waited for, under one Idempotency-Key.
func TestCallsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := clientOf(answer(429, "20", `{"detail":"too many"}`), broken, answer(500, "", "oops"),
			answer(200, "", `{"email":"ann@example.org","status":"VALID","score":98,"reason":null}`))
		began := time.Now()
		r, err := c.Verify(t.Context(), "ann@example.org", Options{CheckSMTP: new(false)})
		require.NoError(t, err)
		require.Equal(t, &Result{Email: "ann@example.org", Status: Valid, Score: 98}, r)
		require.Equal(t, 26*time.Second, time.Since(began), "Retry-After, then 2 s and 4 s")
		require.Len(t, a.requests, 4)
		for i, q := range a.requests {
			require.Equal(t, "https://verify.example.org/v1/verify/single", q.URL.String())
			require.Equal(t, "Bearer secret", q.Header.Get("Authorization"))
			require.Equal(t, a.requests[0].Header.Get("Idempotency-Key"), q.Header.Get("Idempotency-Key"))
			require.JSONEq(t, `{"email":"ann@example.org","check_smtp":false}`, a.bodies[i])
		}
		require.GreaterOrEqual(t, len(a.requests[0].Header.Get("Idempotency-Key")), 20)
	})
}

// TestFinalAnswersAreErrors: what a later attempt would not change, or would only after a long time, is returned.
func TestFinalAnswersAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, first := range map[string]func() *http.Response{
			"no credits": answer(402, "", `{"detail":"too few credits"}`),
			"the hour's": answer(429, "1800", `{"detail":"too many uploads"}`),
			"a conflict": answer(409, "", `{"detail":"it is paused"}`),
		} {
			c, _ := clientOf(first)
			_, err := c.Verify(t.Context(), "ann@example.org", Options{})
			var refusal *Error
			require.ErrorAs(t, err, &refusal, name)
			require.NotEmpty(t, refusal.Detail)
		}
		c, _ := clientOf(broken, broken, broken, broken)
		_, err := c.Job(t.Context(), "j1")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "after four attempts")
		c, _ = clientOf(answer(503, "30", ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Job(ctx, "j1")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestListIsSentWholeAgain: a second attempt has the list from its beginning, and progress ends at the whole.
func TestListIsSentWholeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := clientOf(answer(503, "1", ""), answer(202, "", `{"job_id":"j1","status":"queued"}`))
		var sent, total int64
		list := strings.NewReader("email\nann@example.org\n")
		j, err := c.Upload(t.Context(), Upload{Filename: "list.csv", List: list,
			Parts: map[string]string{"details": "true"}, Progress: func(s, of int64) { sent, total = s, of }})
		require.NoError(t, err)
		require.Equal(t, "j1", j.ID)
		require.Equal(t, a.bodies[0], a.bodies[1])
		require.EqualValues(t, len(a.bodies[1]), a.requests[1].ContentLength)
		require.EqualValues(t, total, a.requests[1].ContentLength)
		require.Equal(t, total, sent)
		for _, want := range []string{`name="details"`, `filename="list.csv"`, "email\nann@example.org\n"} {
			require.Contains(t, a.bodies[1], want)
		}
	})
}

// TestResumedUploadGivesUpWhereNothingArrives: a large list goes on at the server's offset, Retry-After holds, and
// attempts are counted from the last that sent something.
func TestResumedUploadGivesUpWhereNothingArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nothing, some := answer(200, "", `{"offset":0}`), answer(200, "", `{"offset":5}`)
		c, a := clientOf(answer(201, "", `{"upload_id":"u1"}`), nothing, broken, some, answer(503, "20", ""), some,
			broken, some, answer(409, "", `{"detail":"another request uses it"}`), some, broken)
		began := time.Now()
		list := strings.NewReader(strings.Repeat("x", resumedFrom))
		_, err := c.Upload(t.Context(), Upload{Filename: "list.csv", List: list})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 27*time.Second, time.Since(began), "1 s, then Retry-After, 2 s and 4 s")
		require.Empty(t, a.next)
		last := a.requests[len(a.requests)-1]
		require.Equal(t, "PATCH /v1/uploads/u1", last.Method+" "+last.URL.Path)
		require.Equal(t, "5", last.Header.Get("Upload-Offset"))
		require.Len(t, a.bodies[len(a.bodies)-1], resumedFrom-5)
	})
}

// TestWebhooksOfOthersAreRefused: only what one of the secrets signed lately is read.
func TestWebhooksOfOthersAreRefused(t *testing.T) {
	const secret, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body := []byte(`{"event":"bulk.finished","job_id":"j1","job":{"status":"completed"},"results":[{"row":1,"status":null}]}`)
	now := time.Now()
	hook, err := webhooks.NewWebhook(secret)
	require.NoError(t, err)
	signature, err := hook.Sign("msg1", now, body)
	require.NoError(t, err)
	headers := func(changes ...string) http.Header {
		h := http.Header{}
		h.Set("webhook-id", "msg1")
		h.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("webhook-signature", "v1,AAAA "+signature)
		for i := 0; i < len(changes); i += 2 {
			h.Set(changes[i], changes[i+1])
		}
		return h
	}
	e, err := ReadWebhook(headers(), body, now, other, secret)
	require.NoError(t, err)
	require.Equal(t, "completed", e.Job.Status)
	require.Len(t, e.Results, 1)
	for name, read := range map[string]func() (*Event, error){
		"another secret": func() (*Event, error) { return ReadWebhook(headers(), body, now, other) },
		"no secret":      func() (*Event, error) { return ReadWebhook(headers(), body, now) },
		"another body":   func() (*Event, error) { return ReadWebhook(headers(), body[1:], now, secret) },
		"an old one": func() (*Event, error) {
			return ReadWebhook(headers(), body, now.Add(6*time.Minute), secret)
		},
		"another id": func() (*Event, error) {
			return ReadWebhook(headers("webhook-id", "msg2"), body, now, secret)
		},
		"no time": func() (*Event, error) {
			return ReadWebhook(headers("webhook-timestamp", ""), body, now, secret)
		},
		"no signature": func() (*Event, error) {
			return ReadWebhook(headers("webhook-signature", ""), body, now, secret)
		},
	} {
		_, err := read()
		require.ErrorIs(t, err, ErrWebhook, name)
	}
}

// TestTypesAreDescribed: the API's description has each member that the types read.
func TestTypesAreDescribed(t *testing.T) {
	text, err := os.ReadFile("../../api/openapi.json")
	require.NoError(t, err)
	var description struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &description))
	types := map[string]any{"Result": Result{}, "Details": Details{}, "Control": Control{}, "Job": Job{}}
	for schema, of := range types {
		properties := description.Components.Schemas[schema].Properties
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if !field.Anonymous {
				require.Contains(t, properties, field.Tag.Get("json"), "%s.%s", schema, field.Name)
			}
		}
	}
}
