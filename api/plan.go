package api

import (
	"context"
	"errors"
	"time"

	"probity/coordinator"
	"probity/coordinator/plan"
)

const (
	planWait    = time.Minute      // for the plans before, for reading the list and for its look-ups
	planLookups = 20 * time.Second // of these, for the look-ups
)

// jobPlan is a plan with the job that it is of.
type jobPlan struct {
	ID string `json:"job_id"`
	coordinator.PlanReport
}

// getPlan serves the least time that what is left of a job takes.
func (x *exchange) getPlan() error {
	if err := x.onlyQuery("sources", "refused"); err != nil {
		return err
	}
	sources, err := x.queryNumber("sources", 0, 1, plan.MaxSources)
	if err != nil {
		return err
	}
	refused, err := x.queryNumber("refused", 100*coordinator.DefaultRefused, 0, 100)
	if err != nil {
		return err
	}
	j, err := x.job()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(x.srv.leaving, planWait)
	defer cancel()
	p, err := x.srv.rooms.Coordinator.Plan(ctx, j.ID, coordinator.PlanOptions{Sources: int(sources), Refused: float64(refused) / 100, Lookups: planLookups})
	switch {
	case errors.Is(err, coordinator.ErrState):
		return refuse(conflict, "The job has nothing left to ask: only a job that is queued, running or paused has a plan.")
	case errors.Is(err, context.DeadlineExceeded):
		return busy("The plan takes too long, or others are being made")
	case err != nil:
		return err
	}
	return x.sendAs(statusOK, jobPlan{j.ID, p.Report()})
}
