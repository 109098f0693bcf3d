package bench

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"probity/bench/report"
)

// concurrentJobs is how many jobs share one service, and concurrentPollEvery is how often each is polled: rarely enough
// to be no load, often enough to see the end of the last job in time.
const (
	concurrentJobs      = 10
	concurrentPollEvery = 400 * time.Millisecond
)

// measureConcurrentJobs splits the list of a growth into ten jobs of ten accounts, and compares the time from the first
// upload to the last downloaded result with that of one job: the mean of a run before the ten and one after them, since
// the speed of a shared machine varies.
func measureConcurrentJobs(ctx context.Context, t *Trial, in *internet, g growth) error {
	parts, err := splitList(g.list, filepath.Join(t.Dir, "part"), concurrentJobs)
	if err != nil {
		return err
	}
	tenJobs, err := runConcurrentJobs(ctx, t, in, parts)
	if err != nil {
		return err
	}
	repeated, err := bulkOnFreshService(ctx, t, in, "again", g.list)
	if err != nil {
		return err
	}
	singleJob := mean(g.large.elapsed.Seconds(), repeated.elapsed.Seconds())
	t.Metric("cpu_of_ten_jobs_to_whole", ratio(tenJobs.cpu.Seconds(),
		mean(g.large.cpu.Seconds(), repeated.cpu.Seconds())), "ratio")
	t.Metric("connections_of_ten_jobs_to_whole", ratio(float64(tenJobs.traffic.connections),
		mean(float64(g.large.traffic.connections), float64(repeated.traffic.connections))), "ratio")
	t.reportPeak("peak_memory_of_ten_jobs", tenJobs.peak)
	t.Metric("seconds_again", repeated.elapsed.Seconds(), "s")
	t.Metric("seconds_of_ten_jobs", tenJobs.elapsed.Seconds(), "s")
	t.Metric("seconds_of_whole", singleJob, "s")
	t.Metric("ten_jobs_to_whole", ratio(tenJobs.elapsed.Seconds(), singleJob), "ratio")
	if t.rows < growthMinRows {
		t.Note("ten jobs are not held against their bar below %s rows in all", report.FormatNumber(growthMinRows))
		return nil
	}
	t.AtMost("ten_jobs_to_whole", 1.1)
	return nil
}

func mean(a, b float64) float64 { return (a + b) / 2 }

// runConcurrentJobs runs a job for each list, all at once, on a fresh service.
func runConcurrentJobs(ctx context.Context, t *Trial, in *internet, lists []string) (r runStats, err error) {
	before, err := in.report(ctx)
	if err != nil {
		return r, err
	}
	err = t.withService(ctx, in, serviceConfig{name: "together", accounts: len(lists)}, func(s *service) error {
		t.logProgress("%d jobs at once", len(lists))
		start, cpu := time.Now(), s.CPU()
		err := s.runJobs(ctx, lists)
		r.elapsed, r.cpu, r.peak = time.Since(start), s.CPU()-cpu, s.Peak()
		return err
	})
	if err != nil {
		return r, err
	}
	after, err := in.report(ctx)
	r.traffic = trafficBetween(before, after)
	return r, err
}

// runJob uploads a list, waits for its job and downloads the result.
func (s *service) runJob(ctx context.Context, key, list, result string) error {
	job, err := s.upload(ctx, key, list)
	if err != nil {
		return err
	}
	if err := s.follow(ctx, key, job.ID, concurrentPollEvery, func(jobRecord) {}); err != nil {
		return err
	}
	_, err = s.results(ctx, key, job.ID, result)
	return err
}

// splitList distributes the rows of a list over parts lists, each with the header.
func splitList(list, prefix string, parts int) (paths []string, err error) {
	f, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := csv.NewReader(bufio.NewReaderSize(f, 1<<20))
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	var out []*csv.Writer
	for i := range parts {
		path := fmt.Sprintf("%s%d.csv", prefix, i)
		part, err := os.Create(path)
		if err != nil {
			return paths, err
		}
		defer func() { _ = part.Close() }() // Flush has reported write errors
		paths, out = append(paths, path), append(out, csv.NewWriter(part))
		if err := out[i].Write(header); err != nil {
			return paths, err
		}
	}
	for i := 0; ; i++ {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return paths, err
		}
		if err := out[i%len(out)].Write(row); err != nil {
			return paths, err
		}
	}
	var errs []error
	for _, w := range out {
		w.Flush()
		errs = append(errs, w.Error())
	}
	return paths, errors.Join(errs...)
}
