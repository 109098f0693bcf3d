package coordinator

import "time"

const (
	// gatherWait is how long rows of many hosts are gathered though the desk has none of their class: a host whose rows come
	// one by one takes as many connections.
	gatherWait = time.Second
	// fedWait is how long rows are gathered while most of their class that are under way are not answered: a receiver that
	// answers slowly must not keep others of the class waiting.
	fedWait = 5 * time.Second
)

// stock is what the desk has of a class of a job.
type stock uint8

const (
	stockLow   stock = iota // nothing, or less than half of what is under way: the next rows are wanted
	stockAsked              // half of what is under way, or more, is not answered
	stockReady              // chunks that wait
)

// stocks is what the desk has of a job's classes; none of those that are not named. It is idle when it has nothing of any job.
func (d *desk) stocks(l *live) (has map[string]stock, idle bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	has = make(map[string]stock, len(l.queues))
	for class, q := range l.queues {
		switch {
		case len(q.ready) > 0:
			has[class] = stockReady
		case q.asked > 0 && 2*q.asked >= q.sent:
			has[class] = stockAsked
		}
	}
	return has, d.idle
}

// gatherKey is what the rows of an open chunk have in common.
type gatherKey struct {
	class  string
	source string // the egress source that must ask; empty for any
	due    int64  // milliseconds since 1970; 0: at once
}

// at is when the rows are due.
func (k *gatherKey) at() time.Time {
	if k.due == 0 {
		return time.Time{}
	}
	return time.UnixMilli(k.due).UTC()
}

// gathered is an open chunk.
type gathered struct {
	packer
	since   time.Time // its first row
	attempt uint8     // the most of any of its rows
}

// feed seals what a hungry desk can do with, if the last time is not just now.
func (s *splitter) feed() error {
	now := time.Now()
	if !s.l.hungry.Load() || now.Sub(s.fed) < flushWait {
		return nil
	}
	s.fed = now
	if s.ending {
		return s.flush()
	}
	has, idle := s.l.c.desk.stocks(s.l)
	for k, g := range s.open {
		if !g.ripe(has[k.class], idle, now) {
			continue
		}
		if err := s.seal(k); err != nil {
			return err
		}
	}
	return s.handOver()
}

// ripe reports rows that are better sent now than gathered further, given what the desk has of their class. While it has work of
// other jobs they may be gathered for longer: only their own job waits for them.
func (g *gathered) ripe(has stock, idle bool, now time.Time) bool {
	var least time.Duration
	switch {
	case has == stockReady:
		return false
	case has == stockAsked || g.scattered() && !idle:
		least = fedWait
	case g.scattered() || !idle:
		least = gatherWait
	}
	return now.Sub(g.since) >= least
}
