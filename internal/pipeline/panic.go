package pipeline

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrPanic is a panic that Contain has caught.
var ErrPanic = errors.New("BUG: panic")

// Contain runs work. A panic becomes an error that wraps ErrPanic and has the stack.
func Contain(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return work()
}
