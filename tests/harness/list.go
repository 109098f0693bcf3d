package harness

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/world"
)

// ListSeed is the seed of the lists that tests draw.
const ListSeed = 11

// EachRow calls f with the cells of a drawn list, the header first, until it has enough.
func EachRow(t *testing.T, w *world.World, rows int, f func(cells []string) bool) {
	pipe, writer := io.Pipe()
	written := make(chan error, 1)
	go func() {
		written <- writer.CloseWithError(world.WriteList(writer, w, rows, ListSeed))
	}()
	r := csv.NewReader(pipe)
	r.ReuseRecord = true
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if !f(cells) {
			break
		}
	}
	require.NoError(t, pipe.Close())
	require.NoError(t, <-written)
}

// PersonaOf is the persona of the receiver of an address; empty for none.
func PersonaOf(w *world.World, email string) string {
	d, ok := w.Domain(email[strings.LastIndexByte(email, '@')+1:])
	if !ok {
		return ""
	}
	return d.Persona.Name
}
