package store

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestNameIsFreshOnce(t *testing.T) {
	var r, other requests
	r.newProcess()
	other.newProcess()
	first := r.next()
	require.Len(t, first, 24)
	require.False(t, other.markUsed(first), "another process made it")
	require.True(t, r.markUsed(first))
	require.False(t, r.markUsed(first))
	require.Less(t, first, r.next(), "names come in order")
	late := r.next()
	for range rememberedNames - 1 {
		r.next()
	}
	require.True(t, r.markUsed(late), "the last one in the window")
	r.next()
	require.False(t, r.markUsed(late), "its bit is of another name now")
	for _, name := range []string{"", "r1", strings.Repeat("0", 24), strings.Repeat("z", 24), first + "0", r.next()[:14] + "ffffffffff", first[:14] + "0000000000"} {
		require.False(t, r.markUsed(name), name)
	}
}

// TestRequestNamesUnderContention: of all calls that mark a name, at most one is told that it is fresh, while new names are made.
func TestRequestNamesUnderContention(t *testing.T) {
	var r requests
	r.newProcess()
	var mu sync.Mutex
	told := map[string]int{}
	var all sync.WaitGroup
	for range 4 {
		names := make([]string, rememberedNames/4)
		for i := range names {
			names[i] = r.next()
		}
		for range 2 {
			all.Go(func() {
				for _, name := range names {
					fresh := r.markUsed(name)
					mu.Lock()
					if fresh {
						told[name]++
					}
					mu.Unlock()
				}
			})
		}
		all.Go(func() {
			for range rememberedNames / 8 {
				r.next()
			}
		})
	}
	all.Wait()
	for name, n := range told {
		if n != 1 {
			t.Fatalf("%s was new %d times", name, n)
		}
	}
}
