package dispatch

// WantsMore reports whether the scheduler has nothing ready of the job: rows in open chunks are better sent now.
func (job *Job) WantsMore() bool { return job.wantsMore.Load() }

// ChunkRows returns how many rows make a full chunk of a class.
func (job *Job) ChunkRows(class string) int { return job.scheduler.budgets.chunkRows(class) }

// Backlog says how much the scheduler has of a job's class.
type Backlog uint8

const (
	// no chunk is ready, and under half of the rows in flight are unanswered: more rows are wanted
	BacklogLow        Backlog = iota
	BacklogUnanswered         // no chunk is ready, and half or more of the rows in flight are unanswered
	BacklogReady              // chunks are ready
)

// Backlogs returns the backlog of the job's classes; a class that is missing is low. idle: no job has anything to send.
func (job *Job) Backlogs() (has map[string]Backlog, idle bool) {
	d := job.scheduler
	d.mu.Lock()
	defer d.mu.Unlock()
	has = make(map[string]Backlog, len(job.queues))
	for class, q := range job.queues {
		switch {
		case len(q.ready) > 0:
			has[class] = BacklogReady
		case q.unanswered > 0 && 2*q.unanswered >= q.dispatchedRows:
			has[class] = BacklogUnanswered
		}
	}
	return has, d.idle
}
