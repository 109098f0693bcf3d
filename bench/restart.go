package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

// runRestart kills a service in the middle of a job and starts it again.
func runRestart(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		list, err := t.writeList("list.csv", in.world, t.rows)
		if err != nil {
			return err
		}
		return t.withService(ctx, in, serviceConfig{name: "restarted"}, func(s *service) error {
			r, err := restart(ctx, t, in, s, list)
			if err != nil {
				return err
			}
			t.AtMost("seconds_until_at_work", 20)
			return t.scoreRun(in.world, list, r)
		})
	})
}

// restart runs a list with a SIGKILL in its middle.
func restart(ctx context.Context, t *Trial, in *internet, s *service, list string) (r runStats, err error) {
	r.result = filepath.Join(t.Dir, "restarted.csv.zst")
	t.logProgress("upload %s", filepath.Base(list))
	job, err := s.upload(ctx, s.keys[0], list)
	if err != nil {
		return r, err
	}
	seen, err := s.pollUntil(ctx, job.ID, func(j jobRecord) bool { return j.Processed >= t.rows/2 || j.finished() })
	if err != nil {
		return r, err
	}
	if seen.finished() {
		return r, errors.New("the job was over before its server could be killed: take more rows")
	}
	if err := s.Kill(); err != nil {
		return r, err
	}
	<-s.Done()
	before, err := in.report(ctx)
	if err != nil {
		return r, err
	}
	t.logProgress("killed with %d rows done", seen.Processed)
	start := time.Now()
	if err := t.start(ctx, s); err != nil {
		return r, err
	}
	t.Metric("rows", float64(t.rows), "")
	t.Metric("rows_done_before", float64(seen.Processed), "")
	t.Metric("seconds_until_ready", time.Since(start).Seconds(), "s")
	if err := in.awaitRecipients(ctx, before.Recipients); err != nil {
		return r, err
	}
	t.Metric("seconds_until_at_work", time.Since(start).Seconds(), "s")
	if _, err := s.pollUntil(ctx, job.ID, jobRecord.finished); err != nil {
		return r, err
	}
	if r.bytes, err = s.results(ctx, s.keys[0], job.ID, r.result); err != nil {
		return r, err
	}
	after, err := in.report(ctx)
	t.Metric("seconds", time.Since(start).Seconds(), "s")
	t.Metric("cpu_per_row", perItem(s.CPU(), t.rows-seen.Processed), "us")
	t.reportPeak("peak_memory", s.Peak())
	t.reportTraffic(trafficBetween(before, after), t.rows-seen.Processed)
	return r, err
}

// pollUntil polls a job until the condition holds.
func (s *service) pollUntil(ctx context.Context, id string,
	condition func(jobRecord) bool) (seen jobRecord, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = s.follow(ctx, s.keys[0], id, pollEvery, func(j jobRecord) {
		seen = j
		if condition(j) {
			stop()
		}
	})
	if condition(seen) {
		err = nil
	}
	return seen, err
}

// awaitRecipients waits until receivers have seen more than n recipients.
func (in *internet) awaitRecipients(ctx context.Context, n int64) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		rep, err := in.report(ctx)
		if err != nil || rep.Recipients > n {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-in.Done():
			return in.Wait()
		case <-tick.C:
		}
	}
}
