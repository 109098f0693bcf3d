package datafolder

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCoordinatorKeepsItsIDAndItsTermRises(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first, term, err := NextTerm(dir, "boss")
	require.NoError(t, err)
	require.Regexp(t, `^boss-[0-9a-f]{8}$`, first)
	require.EqualValues(t, 1, term)
	again, term, err := NextTerm(dir, "renamed")
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.EqualValues(t, 2, term)
	info, err := os.Stat(filepath.Join(dir, CoordinatorFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.WriteFile(filepath.Join(dir, CoordinatorFile), []byte("boss"), 0o600))
	_, _, err = NextTerm(dir, "boss")
	require.ErrorContains(t, err, "is damaged")
}
