package api

import (
	"context"
	"errors"
	"time"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/coordinator/plan"
)

const (
	planTimeout       = time.Minute      // for waiting for earlier plans, reading the list and its lookups
	planLookupTimeout = 20 * time.Second // of these, for the lookups
)

// jobPlan is a plan with its job.
type jobPlan struct {
	ID string `json:"job_id"`
	plan.Report
}

// getPlan serves the least time that the rest of a job takes.
func getPlan(c *call) error {
	sources, err := c.QueryNumber("sources", 0, 1, plan.MaxSources)
	if err != nil {
		return err
	}
	refused, err := c.QueryNumber("refused", 100*plan.DefaultRefused, 0, 100)
	if err != nil {
		return err
	}
	j, err := visibleJob(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.srv.http.DrainContext(), planTimeout)
	defer cancel()
	p, err := c.srv.deps.Coordinator.Plan(ctx, j.ID,
		plan.Options{Sources: int(sources), Refused: float64(refused) / 100, Lookups: planLookupTimeout})
	switch {
	case errors.Is(err, coordinator.ErrState):
		return httpd.Refuse(httpd.Conflict, "The job has nothing left to ask: only a job that is ready, queued, running or paused has a plan.")
	case errors.Is(err, context.DeadlineExceeded):
		return httpd.Busy("The plan takes too long, or others are being made")
	case err != nil:
		return err
	}
	return c.SendJSON(httpd.StatusOK, jobPlan{j.ID, p.Report()})
}
