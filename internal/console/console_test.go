package console

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// tracedError prints its stack trace with %+v, as errors of the databases do.
type tracedError struct{}

func (tracedError) Error() string { return "there is no such file" }

func (tracedError) Format(s fmt.State, _ rune) {
	fmt.Fprint(s, "there is no such file")
	if s.Flag('+') {
		fmt.Fprint(s, "\n(1) attached stack trace")
	}
}

func TestLogHasNoStackTraceOfAnError(t *testing.T) {
	var out bytes.Buffer
	(&IO{Err: &out}).Log().Error("the results of a job cannot be given", "error", tracedError{})
	require.Contains(t, out.String(), `error="there is no such file"`)
	require.NotContains(t, out.String(), "stack trace")
}

type pathError struct{ path string }

func (e *pathError) Error() string { return e.path + " is not there" }

// TestNilErrorIsLogged: an error that is a nil pointer does not end the process.
func TestNilErrorIsLogged(t *testing.T) {
	var out bytes.Buffer
	var missing *pathError
	(&IO{Err: &out}).Log().Error("a file cannot be read", "error", missing)
	require.Contains(t, out.String(), "error=<nil>")
}
