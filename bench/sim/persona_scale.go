package sim

import (
	"math"
	"time"
)

// scaled returns l for a world of that speed-up.
func (l Limits) scaled(speedup float64) Limits {
	if speedup <= 0 {
		if l.RcptsPerTransaction == 1 {
			return Limits{RcptsPerTransaction: 1}
		}
		return Limits{}
	}
	l.ConnectionsPerMinute = scaleUp(l.ConnectionsPerMinute, speedup)
	l.RcptsPerMinute = scaleUp(l.RcptsPerMinute, speedup)
	l.RefusalsPerHour = scaleUp(l.RefusalsPerHour, speedup)
	return l
}

// scaleUp multiplies a limit and rounds up, so that no persona tolerates less than it should.
func scaleUp(limit int, speedup float64) int {
	return int(min(math.Ceil(float64(limit)*speedup), math.MaxInt32))
}

// scaleWait is a waiting time of a persona in a world of that speed-up; 0 at speed-up 0.
func scaleWait(d time.Duration, speedup float64) time.Duration {
	if speedup <= 0 {
		return 0
	}
	return time.Duration(float64(d) / speedup)
}
