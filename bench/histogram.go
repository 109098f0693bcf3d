package bench

import (
	"math"
	"time"
)

// bucketOf is the bucket whose bounds hold d: the first holds everything up to latencyFrom, the last everything beyond.
func bucketOf(d time.Duration) int {
	if d <= latencyFrom {
		return 0
	}
	n := int(math.Ceil(perDoubling * math.Log2(float64(d)/float64(latencyFrom))))
	for n > 0 && d <= bucketEnd(n-1) { // rounding may have put a bound into the next bucket
		n--
	}
	return min(n, latencyBuckets-1)
}

// bucketEnd is the highest duration of a bucket.
func bucketEnd(n int) time.Duration {
	return time.Duration(float64(latencyFrom) * math.Exp2(float64(n)/perDoubling))
}
