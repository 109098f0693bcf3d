package persona

import (
	"math"
	"time"
)

// Scaled returns l for a world of that speed-up.
func (l Limits) Scaled(speedup float64) Limits {
	if speedup <= 0 {
		if l.RcptsPerTransaction == 1 {
			return Limits{RcptsPerTransaction: 1}
		}
		return Limits{}
	}
	l.ConnectionsPerMinute = ScaleUp(l.ConnectionsPerMinute, speedup)
	l.RcptsPerMinute = ScaleUp(l.RcptsPerMinute, speedup)
	l.RefusalsPerHour = ScaleUp(l.RefusalsPerHour, speedup)
	return l
}

// ScaleUp multiplies a limit and rounds up, so that no persona tolerates less than it should.
func ScaleUp(limit int, speedup float64) int {
	return int(min(math.Ceil(float64(limit)*speedup), math.MaxInt32))
}

// ScaleWait is a waiting time of a persona in a world of that speed-up; 0 at speed-up 0.
func ScaleWait(d time.Duration, speedup float64) time.Duration {
	if speedup <= 0 {
		return 0
	}
	return time.Duration(float64(d) / speedup)
}
