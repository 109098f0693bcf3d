package coordinator

// shortJobRatio is how many times longer another job must be for this one to count as short. A short job gets most of the
// turns at each receiver: it ends soon, and delays the long one little.
const shortJobRatio = 4

// remaining returns how many addresses of the job have no verdict yet.
func (job *runningJob) remaining() int64 { return job.record.Unique - job.progress.answered() }

// isShort reports whether a job has far fewer rows left than another scheduled one.
func (d *scheduler) isShort(job *runningJob) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	longest := int64(0)
	for _, other := range d.jobs {
		longest = max(longest, other.remaining())
	}
	return shortJobRatio*job.remaining() <= longest
}
