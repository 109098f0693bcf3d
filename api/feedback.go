package api

import (
	"time"

	"probity/api/feedback"
	"probity/coordinator"
	"probity/coordinator/details"
	"probity/coordinator/results"
)

// receiveFeedback serves POST /v1/feedback.
func receiveFeedback(c *call) error {
	table := coordinator.TableOf(c.srv.deps.Coordinator)
	return feedback.Receive(c.Call, c.srv.deps.Feedback, table, c.identity, c.srv.now())
}

func getAccuracy(c *call) error {
	return feedback.SendAccuracy(c.Call, c.srv.deps.Feedback, c.identity.User.ID)
}

// chance returns how probable it is that the address takes mail, of an answer with details.
func chance(c *call, a *results.Single, now time.Time) (found details.Chance) {
	if !a.Details || c.identity.Test {
		return found
	}
	p, n, known := c.srv.deps.Feedback.Probability(c.identity.User.ID, feedback.BinOf(&a.Verdict, now))
	if known {
		found = details.Chance{Value: p, N: n}
	}
	return found
}
