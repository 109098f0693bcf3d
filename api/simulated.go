package api

import (
	"strings"
	"time"

	"probity/api/httpd"
	"probity/api/reasons"
	"probity/engine"
	"probity/store"
)

// simulatedRefusal is the error that an address requests from a test key, nil for none. Its headers agree with its
// detail.
func simulatedRefusal(c *call, email string) error {
	a, err := engine.ParseTrimmed(email)
	if err != nil || a.Domain() != reasons.SimulatedDomain {
		return nil
	}
	switch strings.ToLower(a.Local()) {
	case "http_402":
		return &store.ErrInsufficientCredits{Balance: 0, Needed: 1}
	case "http_429":
		c.setDecision(store.Decision{Limit: c.decision.Limit, Per: c.decision.Per, Reset: time.Minute,
			RetryAfter: time.Minute})
		return overLimit(c.decision, counted[c.route.rateLimit])
	case "http_500":
		r := httpd.NewFailure(nil)
		r.Simulated = true
		return r
	}
	return nil
}
