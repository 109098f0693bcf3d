package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// DamagedError is the error of a state store with a file that is not as it was written. It is an ErrBroken.
type DamagedError struct {
	Dir   string // of the store
	Cause error  // names the file, where it is known
}

func (e *DamagedError) Error() string {
	cause, more, _ := strings.Cut(e.Cause.Error(), "\n") // a line for each damaged file
	if more != "" {
		cause += fmt.Sprintf(", and %d more", strings.Count(more, "\n")+1)
	}
	return fmt.Sprintf("the state store in %s is damaged (%s): restore a backup, see Backup and restore in docs/operating.md", e.Dir, cause)
}

// Unwrap makes it an ErrBroken.
func (e *DamagedError) Unwrap() []error { return []error{ErrBroken, e.Cause} }

func damageIn(file string, cause error) *DamagedError {
	return &DamagedError{filepath.Dir(file), fmt.Errorf("%s: %w", filepath.Base(file), cause)}
}

// damageReports is told of damage, which any goroutine of the database may find.
type damageReports struct {
	first atomic.Pointer[DamagedError]
	fatal atomic.Bool // end the process
}

// report is called with each damage. The calls that meet it fail, whatever becomes of the process.
func (r *damageReports) report(info pebble.DataCorruptionInfo) {
	found := damageIn(info.Path, info.Details)
	r.first.CompareAndSwap(nil, found)
	if r.fatal.Load() {
		panic(Lost(found.Error()))
	}
}
