package admin

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A busy service may have any number of job files: only the disk limits its backup.
func TestBackupHasNoLimitOfFiles(t *testing.T) {
	const jobs, files = 20_001, 5
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		var err error
		add := func(name string) {
			if err == nil {
				err = out.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600})
			}
		}
		for j := range jobs {
			for f := range files {
				add(fmt.Sprintf("jobs/%05d/%d", j, f))
			}
		}
		add(backupEndEntry)
		w.CloseWithError(err)
	}()
	taken := 0
	require.NoError(t, unpack(tar.NewReader(r), func(string, io.Reader) error { taken++; return nil }))
	require.Equal(t, jobs*files, taken)
}

// TestBackupEndsWithItsArchive: a server that sends on without end does not hold the command.
func TestBackupEndsWithItsArchive(t *testing.T) {
	var archive bytes.Buffer
	out := tar.NewWriter(&archive)
	require.NoError(t, out.WriteHeader(&tar.Header{Name: backupEndEntry, Typeflag: tar.TypeReg, Mode: 0o600}))
	require.NoError(t, out.Close())
	dir := filepath.Join(t.TempDir(), "copy")
	ask := func() (io.ReadCloser, error) { return io.NopCloser(io.MultiReader(&archive, endless{})), nil }
	require.ErrorContains(t, writeBackup(dir, ask), "more after the end of the backup")
	require.NoDirExists(t, dir)
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }
