package api

import (
	"context"
	"io"

	"probity/api/httpd"
	"probity/coordinator/results"
)

// compareJob serves POST /v1/compare: another verifier's results next to those of a finished job.
func compareJob(c *call) error {
	c.Param = c.QueryText("job_id")
	if c.Param == "" {
		return httpd.Refuse(httpd.Unacceptable, "job_id is missing: name the job to compare with, as in ?job_id=...")
	}
	j, err := job(c)
	if err != nil {
		return err
	}
	f := results.Filter{Form: results.Form{Format: results.JSONL}, NoInput: true}
	if err := checkResultsReady(j, f); err != nil {
		return err
	}
	return c.srv.comparisons.Send(c.srv.http.StopContext(), c.Call, j,
		func(ctx context.Context, w io.Writer) error { return c.srv.deps.Coordinator.Results(ctx, j.ID, f, w) })
}
