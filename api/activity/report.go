package activity

import (
	"time"

	"probity/api/httpd"
	"probity/api/record"
	"probity/engine"
)

// Report is what happened, in steps.
type Report struct {
	Step      int        `json:"step_seconds"`
	Points    []Point    `json:"points"` // in order; a step without a minute is left out
	Receivers []Receiver `json:"receivers"`
	Hosts     []Host     `json:"hosts"`
	OldestJob *OldestJob `json:"oldest_job"`
}

// Point is a step.
type Point struct {
	At      record.Time      `json:"at"`      // its begin
	Minutes int              `json:"minutes"` // that were recorded in it
	Counts  map[string]int64 `json:"counts"`  // addresses of jobs that were answered, by status
	Singles int64            `json:"singles"`
	Waiting int64            `json:"waiting"` // the most rows that waited at the end of a minute
	Oldest  int64            `json:"oldest_job_seconds"`
}

// Receiver is how much of a receiver's budgets was used.
type Receiver struct {
	Receiver string `json:"receiver"` // the name of a provider, or a host
	Used     []int  `json:"used_percent"`
	Peak     int    `json:"peak_percent"`
}

// Host is a host at which probes failed.
type Host struct {
	Host     string      `json:"host"`
	Failures int         `json:"failures"`
	Last     record.Time `json:"last_at"`
}

// OldestJob is the unfinished job that was made first, at the end of the last minute.
type OldestJob struct {
	ID      string      `json:"job_id"`
	Created record.Time `json:"created_at"`
}

// Report sums up what was kept in steps of a length, of at most 24 hours before now.
func (r *Recorder) Report(now time.Time, step time.Duration) Report {
	r.mu.Lock()
	minutes, oldest := r.minutes, r.oldest
	r.mu.Unlock()
	rep := Report{Step: int(step.Seconds()), Points: []Point{}, Receivers: []Receiver{}, Hosts: []Host{}}
	if oldest != nil {
		rep.OldestJob = &OldestJob{oldest.ID, record.Time(oldest.CreatedAt)}
	}
	used, failed := map[string]map[int]int{}, map[string]*Host{}
	for _, m := range minutes {
		if now.Sub(m.at) > Kept*time.Minute {
			continue
		}
		rep.add(m, step)
		at := len(rep.Points) - 1
		for _, u := range m.used {
			if used[u.name] == nil {
				used[u.name] = map[int]int{}
			}
			used[u.name][at] = max(used[u.name][at], u.count)
		}
		for _, f := range m.failed {
			if failed[f.name] == nil {
				failed[f.name] = &Host{Host: f.name}
			}
			failed[f.name].Failures += f.count
			failed[f.name].Last = record.Time(m.at)
		}
	}
	peaks, sums := map[string]int{}, map[string]int{}
	for name, byStep := range used {
		for _, percent := range byStep {
			peaks[name] = max(peaks[name], percent)
		}
	}
	for _, f := range highest(peaks) {
		series := make([]int, len(rep.Points))
		for at, percent := range used[f.name] {
			series[at] = percent
		}
		rep.Receivers = append(rep.Receivers, Receiver{f.name, series, f.count})
	}
	for name, h := range failed {
		sums[name] = h.Failures
	}
	for _, f := range highest(sums) {
		rep.Hosts = append(rep.Hosts, *failed[f.name])
	}
	return rep
}

// add adds a minute to the step that it is in, which is the last one or a new one.
func (rep *Report) add(m minute, step time.Duration) {
	begin := m.at.Add(-time.Minute).Truncate(step)
	if n := len(rep.Points); n == 0 || !time.Time(rep.Points[n-1].At).Equal(begin) {
		rep.Points = append(rep.Points, Point{At: record.Time(begin), Counts: map[string]int64{}})
	}
	p := &rep.Points[len(rep.Points)-1]
	p.Minutes++
	for s, n := range m.answered {
		p.Counts[engine.Status(s).String()] += n
	}
	p.Singles += m.singles
	p.Waiting = max(p.Waiting, m.waiting)
	p.Oldest = max(p.Oldest, int64(m.oldest.Seconds()))
}

// Send serves the report, in steps of the query's minutes.
func Send(c *httpd.Call, r *Recorder, now time.Time) error {
	minutes, err := c.QueryNumber("minutes", 10, 1, 60)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, r.Report(now, time.Duration(minutes)*time.Minute))
}
