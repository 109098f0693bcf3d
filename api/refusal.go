package api

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// The statuses of answers that are not errors.
const (
	statusOK          = 200
	statusCreated     = 201
	statusAccepted    = 202
	statusNoContent   = 204
	statusPartial     = 206
	statusNotModified = 304
	statusContinue    = 100
)

// refusalKind is why a request was refused. The zero value is a failure on our side.
type refusalKind uint8

const (
	failed refusalKind = iota
	malformed
	unauthorized
	paymentRequired
	forbidden
	notFound
	wrongMethod
	conflict
	gone
	tooLarge
	mediaType
	badRange
	unacceptable
	tooMany
	unavailable
)

var kindStatus = [...]int{failed: 500, malformed: 400, unauthorized: 401, paymentRequired: 402, forbidden: 403, notFound: 404,
	wrongMethod: 405, conflict: 409, gone: 410, tooLarge: 413, mediaType: 415, badRange: 416, unacceptable: 422, tooMany: 429,
	unavailable: 503}

// refusal is an error answer. The code that knows what the client can do about it makes it.
type refusal struct {
	kind      refusalKind
	detail    string
	retry     time.Duration // Retry-After, in whole seconds, at least one; 0: no such header
	allow     string        // of wrongMethod: the methods that are allowed
	length    int64         // of badRange: the length of the file
	challenge string        // of unauthorized: the scheme of WWW-Authenticate; empty: Bearer
	closeConn bool          // the connection is out of step or not worth keeping
	simulated bool          // requested with a test key: nothing is wrong
	cause     error         // for the log
}

func (r *refusal) Error() string { return r.detail }
func (r *refusal) Unwrap() error { return r.cause }
func (r *refusal) status() int   { return kindStatus[r.kind] }

func (r *refusal) retryAfter() string { return strconv.FormatInt(r.retrySeconds(), 10) }

func (r *refusal) retrySeconds() int64 { return max(1, int64(math.Ceil(r.retry.Seconds()))) }

func refuse(kind refusalKind, format string, args ...any) *refusal {
	return &refusal{kind: kind, detail: fmt.Sprintf(format, args...)}
}

const (
	failedDetail = "The server failed and nothing was charged: try again, and report the X-Request-Id if it happens again."
	retryLater   = 5 * time.Second
)

// busy is a refusal of a request that may succeed later.
func busy(reason string) *refusal {
	r := refuse(unavailable, "%s: try again after Retry-After seconds.", reason)
	r.retry = retryLater
	return r
}

// newFailure is the answer to a failure on our side. The text of its cause is only logged.
func newFailure(cause error) *refusal {
	return &refusal{kind: failed, detail: failedDetail, cause: cause}
}

// headers are the headers of a refusal.
func (r *refusal) headers() map[string]string {
	h := make(map[string]string)
	if r.retry > 0 {
		h["Retry-After"] = r.retryAfter()
	}
	switch r.kind {
	case unauthorized:
		h["WWW-Authenticate"] = cmp.Or(r.challenge, "Bearer")
	case wrongMethod:
		h["Allow"] = r.allow
	case badRange:
		h["Content-Range"] = "bytes */" + strconv.FormatInt(r.length, 10)
	}
	return h
}

// body is the body of a refusal. Angle brackets are not escaped: people read it, and it is never HTML (sent with nosniff).
func (r *refusal) body() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]string{"detail": r.detail}); err != nil {
		panic("BUG: a string is not JSON: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// rawRefusal is a whole response, for a connection that is rejected.
func rawRefusal(r *refusal) []byte {
	body := r.body()
	head := fmt.Sprintf("HTTP/1.1 %d Refused\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %s\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n",
		r.status(), len(body), r.retryAfter(), newRequestID())
	return append([]byte(head), body...)
}

// newRequestID makes the id of a request that was rejected before a handler saw it.
func newRequestID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
