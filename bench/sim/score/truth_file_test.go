package score

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
)

func TestTruthFile(t *testing.T) {
	w := world.New(world.Config{})
	in := "name,email,notes\r\n\"x, \"\"y\"\"\",x@gmial.com,\"two\nlines\"\nz,,\nshort\n"
	want := "name,email,notes,expected_status,expected_reason\n\"x, \"\"y\"\"\",x@gmial.com,\"two\nlines\",INVALID,domain_not_found\nz,,,,\nshort,,\n"
	var got bytes.Buffer
	require.NoError(t, WriteTruth(&got, w, strings.NewReader(in)))
	require.Equal(t, want, got.String())
	require.ErrorIs(t, WriteTruth(io.Discard, w, strings.NewReader("a,b\n")), errNoEmail)
	require.Error(t, WriteTruth(io.Discard, w, strings.NewReader("")))
}

func BenchmarkTruth(b *testing.B) {
	w := world.New(world.Config{})
	list := listOf(b, w, b.N, 1)
	b.ResetTimer()
	require.NoError(b, WriteTruth(io.Discard, w, bytes.NewReader(list)))
}

func listOf(t testing.TB, w *world.World, rows int, seed uint64) []byte {
	var b bytes.Buffer
	require.NoError(t, world.WriteList(&b, w, rows, seed))
	return b.Bytes()
}
