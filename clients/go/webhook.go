package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// webhookTolerance is how old a callback may be, and how far the clocks may differ.
const webhookTolerance = 5 * time.Minute

// ErrWebhook is a callback that none of the secrets signed, or an old one.
var ErrWebhook = errors.New("the callback is not genuine")

// Event is a callback.
type Event struct {
	Event      string `json:"event"` // "bulk.finished" or "single.finished"
	JobID      string `json:"job_id"`
	Job        *Job   `json:"job"`
	ResultsURL string `json:"results_url"` // needs no key, for 24 hours
	Results    []Row  `json:"results"`     // nil if the callback has the link only

	RequestID string  `json:"request_id"` // of the single verification
	Result    *Result `json:"result"`
}

// ReadWebhook reads a callback after it has checked its signature (Standard Webhooks). After a secret is replaced, both
// are good for a day.
func ReadWebhook(h http.Header, body []byte, now time.Time, secrets ...string) (*Event, error) {
	at := h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > webhookTolerance {
		return nil, fmt.Errorf("%w: webhook-timestamp is %q", ErrWebhook, at)
	}
	signed := false
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			return nil, fmt.Errorf("a signing secret is malformed: %w", err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", h.Get("webhook-id"), at, body)
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for given := range strings.FieldsSeq(h.Get("webhook-signature")) {
			signed = hmac.Equal([]byte(given), []byte(want)) || signed
		}
	}
	if !signed {
		return nil, fmt.Errorf("%w: no signature matches", ErrWebhook)
	}
	e := new(Event)
	return e, json.Unmarshal(body, e)
}
