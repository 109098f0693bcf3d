package jobdir

import (
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/jobfiles"
	"probity/internal/wholefile"
)

func FuzzOldLog(f *testing.F) {
	f.Add([]byte(oldLogMagic+"\x01\x00\x00\x00"), []byte("prbnam01\x03abc"))
	f.Fuzz(func(t *testing.T, log, names []byte) {
		d := New(nil, vfs.NewMem(), "", 1)
		require.NoError(t, d.FS.MkdirAll(d.Path("j"), 0o700))
		require.NoError(t, wholefile.Write(d.FS, d.Path("j", oldFileLog), log))
		require.NoError(t, wholefile.Write(d.FS, d.Path("j", oldFileNames), names))
		if err := d.MigrateLog("j"); err != nil {
			require.ErrorIs(t, err, jobfiles.ErrDamaged)
		}
	})
}

// TestOldLogWithoutMagicIsDamaged: if it were read as empty, all rows would be probed again, or their answers lost.
func TestOldLogWithoutMagicIsDamaged(t *testing.T) {
	d := New(nil, vfs.NewMem(), "", 1)
	require.NoError(t, d.FS.MkdirAll(d.Path("j"), 0o700))
	require.NoError(t, wholefile.Write(d.FS, d.Path("j", oldFileLog), []byte("prblog11 and more")))
	require.ErrorIs(t, d.MigrateLog("j"), jobfiles.ErrDamaged)
	f, err := d.FS.Open(d.Path("j", oldFileLog))
	require.NoError(t, err)
	b, err := io.ReadAll(f)
	require.NoError(t, errors.Join(err, f.Close()))
	require.Equal(t, "prblog11 and more", string(b))
}
