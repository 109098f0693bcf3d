package api

import (
	"context"
	"time"

	"probity/api/httpd"
	"probity/api/record"
)

// whyTimeout bounds an explanation: nodes are asked for their ready queues.
const whyTimeout = 10 * time.Second

// explainJob serves what the open rows of a job wait for, to its owner and to admins.
func explainJob(c *call) error {
	if _, err := visibleJob(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.srv.http.DrainContext(), whyTimeout)
	defer cancel()
	w, err := c.srv.deps.Coordinator.Why(ctx, c.Param)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, record.NewWhy(c.Param, &w))
}
