package diskroom

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFullDiskIsLoggedByItsRoomAlone: what cannot be written for want of room is not logged by each that writes; any
// other failure is.
func TestFullDiskIsLoggedByItsRoomAlone(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(Quiet(slog.NewTextHandler(&text, nil)))
	write := func(cause error) error {
		return fmt.Errorf("cache budgets: %w", &fs.PathError{Op: "write", Path: "000004.log", Err: cause})
	}
	full := &FullError{write(syscall.ENOSPC)}
	for _, l := range []*slog.Logger{log, log.With("node", "p1"), log.WithGroup("cache")} {
		l.Error("budgets not saved", "in", 1, "error", fmt.Errorf("state: %w", full))
		require.Empty(t, text.String())
		l.Error("budgets not saved", "in", 1, "error", write(syscall.EIO))
		require.Contains(t, text.String(), "budgets not saved")
		text.Reset()
	}

	r := New(newSmallDisk(t, minBallast/2), "data", log)
	r.MakeBallast()
	r.MakeBallast()
	require.Equal(t, 1, strings.Count(text.String(), "no room on the disk"))
}
