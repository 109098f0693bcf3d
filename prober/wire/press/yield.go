package press

import "runtime"

// yieldRows is a few tenths of a millisecond of work.
const yieldRows = 128

// Yield is called with the index of each row in a loop over many, and lets other goroutines run after every 128 of
// them. Without it the scheduler gives such a loop ten milliseconds at a time, and a single call that meets a few of
// them waits for each.
func Yield(row int) {
	if row%yieldRows == yieldRows-1 {
		runtime.Gosched()
	}
}
