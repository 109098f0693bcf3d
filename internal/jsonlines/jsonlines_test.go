package jsonlines

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinesComeWholeInAnyPieces, and the first error ends them.
func TestLinesComeWholeInAnyPieces(t *testing.T) {
	const text = "{\"row\":1}\n\n{\"row\":3}\nunfinished"
	for size := 1; size <= len(text); size++ {
		var lines []string
		w := Writer{Line: func(line []byte) error {
			lines = append(lines, string(line))
			return nil
		}}
		for from := 0; from < len(text); from += size {
			piece := text[from:min(from+size, len(text))]
			n, err := w.Write([]byte(piece))
			require.NoError(t, err)
			require.Len(t, piece, n)
		}
		require.Equal(t, []string{`{"row":1}`, "", `{"row":3}`}, lines)
	}
	broken := errors.New("broken")
	w := Writer{Line: func([]byte) error { return broken }}
	_, err := w.Write([]byte("a\nb\n"))
	require.ErrorIs(t, err, broken)
}
