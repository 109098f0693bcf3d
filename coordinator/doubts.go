package coordinator

import (
	"slices"
	"time"

	"probity/engine"
)

// A domain that cannot be looked up is mostly broken, and its rows are told so. When several in a row cannot, the cause may be our
// resolver, or the way to it. Then a made-up name is looked up, below a domain that was found: only when that fails, too,
// domains are asked for again, three times at the most, before their rows are told. The first that fails does not know yet that
// others will, and is kept for a moment: until a domain is found, or no other is being asked for.
const (
	suspicious = 3               // failures in a row
	suspectFor = 5 * time.Second // after a canary that failed
	unsureFor  = time.Second     // at the least, while others are being asked
	promptly   = time.Second     // is how a resolver that is well finds the canary
	ailing     = time.Minute     // how long one that was not is asked again, whatever a canary says
	toll       = 20              // so many fail in a row of no accident: the outage was over when the canary went
)

// askedAgain is when a domain is asked for again, counted from its last failure: past the resolver's memory of that one.
var askedAgain = [...]time.Duration{6 * time.Second, 15 * time.Second, 45 * time.Second}

// doubts are the domains whose look-up has failed and that are not told yet: at most as many as are being asked.
type doubts struct {
	inRow   int
	asking  bool      // the canary is under way
	suspect time.Time // until when it is our resolver
	failed  time.Time // when a canary failed last
	unsure  []*domain // until the canary is back, or others
	since   time.Time // when the first of them came
	putOff  []putOff  // by when they are due
	rows    int64     // that wait for those
}

type putOff struct {
	x  *domain
	at time.Time
}

func (f *doubts) held() int { return len(f.unsure) + len(f.putOff) }

// none reports that no domain is held and no canary is under way.
func (f *doubts) none() bool { return !f.asking && f.held() == 0 }

// hold keeps a domain, or lets it go, and counts its rows.
func (f *doubts) hold(x *domain, held bool) {
	if x.held = held; held {
		f.rows += int64(len(x.rows))
	} else {
		f.rows -= int64(len(x.rows))
	}
}

// add lets a row wait for a domain, be it held or not.
func (f *doubts) add(x *domain, r splitRow) {
	if x.rows = append(x.rows, r); x.held {
		f.rows++
	}
}

func unresolved(x *domain) bool {
	fact := x.via.Fact
	return fact == engine.FactServFail || fact == engine.FactDNSTimeout
}

// settles takes an answer in. True when its rows may be told; else the domain is kept.
func (f *doubts) settles(x *domain, now time.Time) bool {
	if !unresolved(x) {
		f.inRow = 0
		return true
	}
	f.inRow++
	if x.asked == len(askedAgain) {
		return true
	}
	f.hold(x, true)
	if now.Before(f.suspect) {
		f.postpone(x, now)
		return false
	}
	if len(f.unsure) == 0 {
		f.since = now
	}
	f.unsure = append(f.unsure, x)
	return false
}

// wantsCanary reports that so many failed in a row that it may be our resolver.
func (f *doubts) wantsCanary(now time.Time) bool {
	return f.inRow >= suspicious && !f.asking && !now.Before(f.suspect)
}

// proved tells whether the canary was found.
func (f *doubts) proved(alive bool, now time.Time) {
	f.asking = false
	accident := f.inRow < toll && (f.failed.IsZero() || now.Sub(f.failed) >= ailing)
	if alive {
		f.inRow, f.since = 0, time.Time{}
	} else {
		f.failed, f.suspect = now, now.Add(suspectFor)
	}
	if alive && accident {
		return
	}
	again := f.unsure
	f.unsure = nil
	for _, u := range again {
		f.postpone(u, now)
	}
}

func (f *doubts) postpone(x *domain, now time.Time) {
	p := putOff{x, now.Add(askedAgain[x.asked])}
	x.asked++
	i, _ := slices.BinarySearchFunc(f.putOff, p, func(a, b putOff) int {
		if a.at.After(b.at) {
			return 1
		}
		return -1 // behind those of the same time
	})
	f.putOff = slices.Insert(f.putOff, i, p)
}

// due takes a domain that is to be asked for again; nil when none is.
func (f *doubts) due(now time.Time) *domain {
	if len(f.putOff) == 0 || now.Before(f.putOff[0].at) {
		return nil
	}
	x := f.putOff[0].x
	f.putOff = f.putOff[1:]
	f.hold(x, false)
	return x
}

// release takes a domain that is broken by itself: another was found since, or no other is being asked for.
func (f *doubts) release(idle bool, now time.Time) *domain {
	if len(f.unsure) == 0 || f.asking || !idle && (f.inRow > 0 || now.Before(f.since.Add(unsureFor))) {
		return nil
	}
	x := f.unsure[0]
	f.unsure = f.unsure[1:]
	f.hold(x, false)
	return x
}

// wait is how long to wait for an answer at the most.
func (f *doubts) wait(until, now time.Time) time.Duration {
	if len(f.putOff) > 0 && f.putOff[0].at.Before(until) {
		until = f.putOff[0].at
	}
	return until.Sub(now)
}
