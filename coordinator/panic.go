package coordinator

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errPanicked is a panic in the work of a job, which fails that job only.
var errPanicked = errors.New("BUG: panic")

// contained runs a part of a job's work. A panic becomes an error that wraps errPanicked and has the stack.
func contained(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanicked, p, debug.Stack())
		}
	}()
	return work()
}
