package httpd

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
	StatusOK          = 200
	StatusCreated     = 201
	StatusAccepted    = 202
	StatusNoContent   = 204
	StatusPartial     = 206
	StatusNotModified = 304
	FirstError        = 400 // statuses from here on are errors
	statusContinue    = 100
)

// Kind is why a request was refused. The zero value is a failure on our side.
type Kind uint8

// The kinds of refusals.
const (
	Failed Kind = iota
	Malformed
	Unauthorized
	PaymentRequired
	Forbidden
	NotFound
	wrongMethod
	Conflict
	Gone
	Precondition
	TooLarge
	mediaType
	badRange
	Unacceptable
	TooMany
	Unavailable
	ChecksumMismatch // a status that only the protocol tus has
)

var kindStatus = [...]int{Failed: 500, Malformed: 400, Unauthorized: 401, PaymentRequired: 402, Forbidden: 403,
	NotFound:    404,
	wrongMethod: 405, Conflict: 409, Gone: 410, Precondition: 412, TooLarge: 413, mediaType: 415, badRange: 416,
	Unacceptable: 422,
	TooMany:      429,
	Unavailable:  503, ChecksumMismatch: 460}

// Refusal is an error answer. The code that knows what the client can do about it makes it.
type Refusal struct {
	Kind      Kind
	Detail    string        // says what is wrong and what to do, without a key, a password or a whole address
	Retry     time.Duration // Retry-After, in whole seconds, at least one; 0: no such header
	Challenge string        // of Unauthorized: the scheme of WWW-Authenticate; empty: Bearer
	Simulated bool          // a failure that the client asked for: nothing is wrong
	Cause     error         // for the log

	allow     string // of wrongMethod: the methods that are allowed
	length    int64  // of badRange: the length of the file
	closeConn bool   // the connection is out of step or not worth keeping
}

// Error is the detail.
func (r *Refusal) Error() string { return r.Detail }

// Unwrap is the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

func (r *Refusal) status() int { return kindStatus[r.Kind] }

func (r *Refusal) retryAfter() string { return strconv.FormatInt(r.RetrySeconds(), 10) }

// RetrySeconds is the value of Retry-After.
func (r *Refusal) RetrySeconds() int64 { return max(1, int64(math.Ceil(r.Retry.Seconds()))) }

// Refuse makes a refusal with a detail.
func Refuse(kind Kind, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// RetryLater is when a busy server may be asked again.
const RetryLater = 5 * time.Second

const failedDetail = "The server failed and nothing was charged: try again, and report the X-Request-Id if it happens again."

// Busy is a refusal of a request that may succeed later.
func Busy(reason string) *Refusal {
	r := Refuse(Unavailable, "%s: try again after Retry-After seconds.", reason)
	r.Retry = RetryLater
	return r
}

// NewFailure is the answer to a failure on our side. The text of its cause is only logged.
func NewFailure(cause error) *Refusal {
	return &Refusal{Kind: Failed, Detail: failedDetail, Cause: cause}
}

// headers are the headers of a refusal.
func (r *Refusal) headers() map[string]string {
	h := make(map[string]string)
	if r.Retry > 0 {
		h["Retry-After"] = r.retryAfter()
	}
	switch r.Kind {
	case Unauthorized:
		h["WWW-Authenticate"] = cmp.Or(r.Challenge, "Bearer")
	case wrongMethod:
		h["Allow"] = r.allow
	case badRange:
		h["Content-Range"] = "bytes */" + strconv.FormatInt(r.length, 10)
	}
	return h
}

// body is the body of a refusal. Angle brackets are not escaped: people read it, and it is never HTML (sent with
// nosniff).
func (r *Refusal) body() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]string{"detail": r.Detail}); err != nil {
		panic("BUG: a string is not JSON: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// newRequestID makes the id of a request that was rejected before a handler saw it.
func newRequestID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
