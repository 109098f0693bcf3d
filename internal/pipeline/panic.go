package pipeline

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrPanic is a panic that Contain has caught.
var ErrPanic = errors.New("BUG: panic")

// Fatal is the value of a panic that must end the process: a database has lost a write, so that the state on disk is unknown until
// it is read again, and it keeps its locks.
type Fatal interface {
	error
	EndsProcess()
}

// Contain runs work. A panic becomes an error that wraps ErrPanic and has the stack, unless it is Fatal.
func Contain(work func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case Fatal:
			panic(p)
		default:
			err = fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()
	return work()
}
