package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// IO is the input and output of a command: results on Out, everything else on Err.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool             // Err is a terminal: progress bars and colour
	Verbose  bool             // log at debug level
	Disk     vfs.FS           // file system of a server; nil is this machine's
	Hangups  <-chan os.Signal // SIGHUP, at which a command reloads or ends; nil for none
	NoHangup bool             // SIGHUP was ignored when the process began, by nohup for example: it ends no command
	Environ  []string         // NAME=value, of which unknown PROBITY_ names are warned of
}

// Files is the file system of this machine, unless a test sets another.
func (i *IO) Files() vfs.FS {
	if i.Disk != nil {
		return i.Disk
	}
	return vfs.Default
}

// Log logs errors, or everything with Verbose, to Err.
func (i *IO) Log() *slog.Logger {
	if i.Verbose {
		return i.logFrom(slog.LevelDebug)
	}
	return i.logFrom(slog.LevelError)
}

// WarnLog logs warnings too.
func (i *IO) WarnLog() *slog.Logger { return i.logFrom(slog.LevelWarn) }

func (i *IO) logFrom(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(i.Err, LogOptions(level)))
}

// LogOptions are the options of a log's handler. An error is its text: slog would also write the stack trace that an
// error of the databases has. fmt makes the text, because it survives an Error method that panics, as that of a nil
// pointer may.
func LogOptions(level slog.Leveler) *slog.HandlerOptions {
	return &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(fmt.Sprint(err))
		}
		return a
	}}
}

// ErrUsage marks errors of the command line itself: exit status 2.
var ErrUsage = errors.New("wrong usage")

// ErrInterrupted is the error of a command that a signal ended.
var ErrInterrupted = errors.New("interrupted")

// Interrupted reports whether err is only the end of ctx: no other failure is joined to it.
func Interrupted(ctx context.Context, err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(e error) bool { return !Interrupted(ctx, e) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return Interrupted(ctx, inner)
	}
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// HostName is the name of this machine, in the form that the system gives.
func HostName() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	return name
}
