package coordinator

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
)

// resultDamages are kinds of damage to a result file; whole is its content.
var resultDamages = map[string]func(path string, whole []byte) error{
	"missing":           func(path string, _ []byte) error { return os.Remove(path) },
	"empty":             func(path string, _ []byte) error { return os.Truncate(path, 0) },
	"one byte":          func(path string, _ []byte) error { return os.Truncate(path, 1) },
	"cut in the header": func(path string, _ []byte) error { return os.Truncate(path, 5) },
	"cut in the middle": func(path string, whole []byte) error { return os.Truncate(path, int64(len(whole)/2)) },
	"last byte missing": func(path string, whole []byte) error { return os.Truncate(path, int64(len(whole)-1)) },
	"a byte more":       func(path string, whole []byte) error { return rewrite(path, append(whole, 0)) },
	"twice":             func(path string, whole []byte) error { return rewrite(path, append(whole, whole...)) },
	"a hole behind":     func(path string, whole []byte) error { return os.Truncate(path, int64(2*len(whole))) },
	"zeros": func(path string, whole []byte) error {
		return rewrite(path,
			make([]byte, len(whole)))
	},
	"zeros behind the middle": func(path string, whole []byte) error {
		return rewrite(path,
			zeroFrom(whole, len(whole)/2))
	},
	"first bit":         func(path string, whole []byte) error { return rewrite(path, flipBit(whole, 0)) },
	"bit in the header": func(path string, whole []byte) error { return rewrite(path, flipBit(whole, 8*4)) },
	"bit in the middle": func(path string, whole []byte) error {
		return rewrite(path,
			flipBit(whole, 4*len(whole)))
	},
	"last bit": func(path string, whole []byte) error {
		return rewrite(path,
			flipBit(whole, 8*len(whole)-1))
	},
	"first byte missing": func(path string, whole []byte) error { return rewrite(path, whole[1:]) },
	"two blocks swapped": func(path string, whole []byte) error { return rewrite(path, swapHalves(whole)) },
	"text": func(path string, _ []byte) error {
		return rewrite(path,
			[]byte("email\na@b.example\n"))
	},
	"a folder": func(path string, _ []byte) error {
		return errors.Join(os.Remove(path),
			os.Mkdir(path, 0o700))
	},
	"a link to nothing": func(path string, _ []byte) error {
		return errors.Join(os.Remove(path),
			os.Symlink("nothing", path))
	},
	"a link to an endless one": func(path string, _ []byte) error {
		return errors.Join(os.Remove(path),
			os.Symlink("/dev/zero", path))
	},
}

func rewrite(path string, b []byte) error { return os.WriteFile(path, b, 0o600) }

func zeroFrom(whole []byte, at int) []byte {
	b := bytes.Clone(whole)
	clear(b[at:])
	return b
}

func flipBit(whole []byte, bit int) []byte {
	b := bytes.Clone(whole)
	b[bit/8] ^= 1 << (bit % 8)
	return b
}

func swapHalves(whole []byte) []byte {
	half := len(whole) / 2
	return append(bytes.Clone(whole[half:]), whole[:half]...)
}

// TestADamagedResultFileIsNoFault: each request gets the right bytes, whether the file was verified a moment ago or
// not. Each damage is counted, and the file is whole afterwards.
func TestADamagedResultFileIsNoFault(t *testing.T) {
	require.GreaterOrEqual(t, len(resultDamages), 20)
	dir := t.TempDir()
	t.Chdir(dir)
	w := newTestEnv(t, vfs.Default)
	w.run()
	id := w.finish(t, w.accept(t, testCSV(3000, 5)).ID).ID
	stored := results.Filter{Form: w.c.StoredForm()}
	csv, packed := w.results(t, id, results.Filter{}), w.results(t, id, stored)
	fetch := map[string]func(w *testEnv) string{
		"unpacked": func(w *testEnv) string { return w.results(t, id, results.Filter{}) },
		"stored":   func(w *testEnv) string { return w.results(t, id, stored) },
		"opened": func(w *testEnv) string {
			f, j, err := w.c.OpenStored(t.Context(), id)
			require.NoError(t, err)
			b, err := io.ReadAll(io.NewSectionReader(f, 0, j.ResultBytes))
			require.NoError(t, errors.Join(err, f.Close()))
			return string(b)
		},
	}
	want := map[string]string{"unpacked": csv, "stored": packed, "opened": packed}
	for kind, damage := range resultDamages {
		for form, get := range fetch {
			require.Equal(t, packed, fetch["opened"](w)) // it was verified a moment ago
			j, err := w.c.Job(id)
			require.NoError(t, err)
			path := filepath.Join("data", "jobs", id, j.Result)
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, damage(path, whole), kind)
			counted := w.c.metrics.damaged.Load()
			require.True(t, want[form] == get(w), "%s, %s", kind, form)
			require.Equal(t, counted+1, w.c.metrics.damaged.Load(), "%s, %s: it is counted", kind, form)
			require.Equal(t, packed, w.results(t, id, stored), kind)
		}
	}
	require.NoError(t, w.close(t))
}
