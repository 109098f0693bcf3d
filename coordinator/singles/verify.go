package singles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"probity/coordinator"
	"probity/coordinator/results"
	"probity/engine"
)

// Verify verifies an address by the coordinator before ctx ends. A deadline that passes gives the reason timeout.
func Verify(ctx context.Context, c *coordinator.Coordinator, r coordinator.Request, started,
	now time.Time) (a results.Single, err error) {
	got, err := c.Single(ctx, r)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		got, err = coordinator.Answer{Verdict: engine.VerdictFor(engine.ReasonTimeout, coordinator.RuleDeadline, 0,
			now)}, nil
		got.Address, _ = engine.ParseTrimmed(r.Email)
	}
	if err != nil {
		return a, fmt.Errorf("single verification: %w", err)
	}
	a = results.Single{Email: r.Email, Verdict: got.Verdict, DidYouMean: got.Suggestion, Node: got.Node,
		Took:    time.Since(started),
		Details: r.Details, Table: got.Table}
	if !got.Address.IsZero() {
		a.Normalized = got.Address.Folded()
	}
	return a, nil
}

// IsOpen reports whether the verdict of a call may still come: its receiver has asked to come again, or its deadline
// has passed.
func IsOpen(v *engine.Verdict) bool {
	return v.Reason == engine.ReasonGreylisted || v.Reason == engine.ReasonTimeout
}
