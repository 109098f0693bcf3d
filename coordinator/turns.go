package coordinator

// shortRatio is how many times longer another job must be for this one to count as short. A short job gets the greater part
// of the turns at each receiver: it is soon done, and the long one hardly notices. See prober's turns.
const shortRatio = 4

// left is how many addresses of the job have no verdict yet.
func (l *live) left() int64 { return l.job.Unique - l.progress.answered() }

// isShort reports a job that has far fewer rows left than another at the desk.
func (d *desk) isShort(l *live) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	longest := int64(0)
	for _, other := range d.lives {
		longest = max(longest, other.left())
	}
	return shortRatio*l.left() <= longest
}
