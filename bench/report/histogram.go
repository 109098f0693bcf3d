package report

import (
	"math"
	"time"
)

// bucketOf returns the bucket of d. The first holds everything up to minLatency, the last everything above its lower
// bound.
func bucketOf(d time.Duration) int {
	if d <= minLatency {
		return 0
	}
	n := int(math.Ceil(bucketsPerDoubling * math.Log2(float64(d)/float64(minLatency))))
	for n > 0 && d <= bucketEnd(n-1) { // rounding may have put a bound into the next bucket
		n--
	}
	return min(n, latencyBuckets-1)
}

// bucketEnd is the highest duration of a bucket.
func bucketEnd(n int) time.Duration {
	return time.Duration(float64(minLatency) * math.Exp2(float64(n)/bucketsPerDoubling))
}
