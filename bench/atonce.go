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
)

// jobsAtOnce is how many jobs share one service, and lookTogether is how often each is looked at: seldom enough that the looks are
// no load, often enough that the end of the last is not seen late.
const (
	jobsAtOnce   = 10
	lookTogether = 400 * time.Millisecond
)

// measureAtOnce cuts the list of a growth into ten jobs of ten accounts, and holds the time from the first upload to the last
// downloaded result against that of the list in one: the mean of a run before the ten and one after them, for a shared machine is
// a tenth and more faster in one minute than in the next.
func (t *Trial) measureAtOnce(ctx context.Context, in *internet, g growth) error {
	parts, err := cutList(g.list, filepath.Join(t.Dir, "part"), jobsAtOnce)
	if err != nil {
		return err
	}
	ten, err := t.atOnce(ctx, in, parts)
	if err != nil {
		return err
	}
	again, err := t.bulkAlone(ctx, in, "again", g.list)
	if err != nil {
		return err
	}
	whole := mean(g.large.elapsed.Seconds(), again.elapsed.Seconds())
	t.metric("cpu_of_ten_jobs_to_whole", ratio(ten.cpu.Seconds(), mean(g.large.cpu.Seconds(), again.cpu.Seconds())), "ratio")
	t.metric("connections_of_ten_jobs_to_whole", ratio(float64(ten.traffic.connections), mean(float64(g.large.traffic.connections), float64(again.traffic.connections))), "ratio")
	t.reportPeak("peak_memory_of_ten_jobs", ten.peak)
	t.metric("seconds_again", again.elapsed.Seconds(), "s")
	t.metric("seconds_of_ten_jobs", ten.elapsed.Seconds(), "s")
	t.metric("seconds_of_whole", whole, "s")
	t.metric("ten_jobs_to_whole", ratio(ten.elapsed.Seconds(), whole), "ratio")
	if t.rows < growsFrom {
		t.remark("ten jobs are not held against their bar below %s rows in all", number(growsFrom))
		return nil
	}
	t.atMost("ten_jobs_to_whole", 1.1)
	return nil
}

func mean(a, b float64) float64 { return (a + b) / 2 }

// atOnce runs a job for each list, all of them together, on a service that has done nothing before.
func (t *Trial) atOnce(ctx context.Context, in *internet, lists []string) (r run, err error) {
	before, err := in.report(ctx)
	if err != nil {
		return r, err
	}
	err = t.withService(ctx, in, serviceConfig{name: "together", accounts: len(lists)}, func(s *service) error {
		t.say("%d jobs at once", len(lists))
		began, cpu := time.Now(), s.cpu()
		err := s.wholeJobs(ctx, lists)
		r.elapsed, r.cpu, r.peak = time.Since(began), s.cpu()-cpu, s.peak()
		return err
	})
	if err != nil {
		return r, err
	}
	after, err := in.report(ctx)
	r.traffic = between(before, after)
	return r, err
}

// wholeJob uploads a list, waits for its job and downloads the result.
func (s *service) wholeJob(ctx context.Context, key, list, result string) error {
	job, err := s.upload(ctx, key, list, nil)
	if err != nil {
		return err
	}
	if err := s.follow(ctx, key, job.ID, lookTogether, func(jobRecord) {}); err != nil {
		return err
	}
	_, err = s.results(ctx, key, job.ID, result)
	return err
}

// cutList deals the rows of a list out to so many lists, each with the header.
func cutList(list, prefix string, parts int) (paths []string, err error) {
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
		defer func() { _ = part.Close() }() // what could not be written, Flush has told
		paths, out = append(paths, path), append(out, csv.NewWriter(part))
		if err := out[i].Write(header); err != nil {
			return paths, err
		}
	}
	return paths, dealRows(in, out)
}

func dealRows(in *csv.Reader, out []*csv.Writer) error {
	for i := 0; ; i++ {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := out[i%len(out)].Write(row); err != nil {
			return err
		}
	}
	var errs []error
	for _, w := range out {
		w.Flush()
		errs = append(errs, w.Error())
	}
	return errors.Join(errs...)
}
