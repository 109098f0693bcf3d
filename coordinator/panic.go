package coordinator

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errPanicked is a bug of ours that a job met: it ends that job and no other.
var errPanicked = errors.New("BUG: panic")

// contained runs a part of a job's work. Its panic becomes an error that wraps errPanicked and says where.
func contained(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanicked, p, debug.Stack())
		}
	}()
	return work()
}
