package explain

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// TestLineThatIsCutOffIsNotJudged: an interrupted input may end in the middle of a line; a whole one may end without a
// line feed.
func TestLineThatIsCutOffIsNotJudged(t *testing.T) {
	lines := func(in io.Reader) (all []string, err error) {
		err = eachLine(nil, in, func(line string) error { all = append(all, line); return nil })
		return all, err
	}
	interrupted := errors.New("interrupted")
	all, err := lines(io.MultiReader(strings.NewReader("one\ntwo\nthr"), iotest.ErrReader(interrupted)))
	require.ErrorIs(t, err, interrupted)
	require.Equal(t, []string{"one", "two"}, all)
	all, err = lines(strings.NewReader("one\ntwo"))
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, all)
}
