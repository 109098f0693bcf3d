package store

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreFreshOnce(t *testing.T) {
	var r, other requests
	r.begin()
	other.begin()
	first := r.next()
	require.Len(t, first, 24)
	require.False(t, other.use(first), "another process made it")
	require.True(t, r.use(first))
	require.False(t, r.use(first))
	require.Less(t, first, r.next(), "names come in order")
	late := r.next()
	for range freshWindow - 1 {
		r.next()
	}
	require.True(t, r.use(late), "the last one in the window")
	r.next()
	require.False(t, r.use(late), "its bit is of another name now")
	for _, name := range []string{"", "r1", strings.Repeat("0", 24), strings.Repeat("z", 24), first + "0", r.next()[:14] + "ffffffffff", first[:14] + "0000000000"} {
		require.False(t, r.use(name), name)
	}
}

// TestNamesUnderContention: of all that use a name, whatever names are made meanwhile, one at most is told that it is new.
func TestNamesUnderContention(t *testing.T) {
	var r requests
	r.begin()
	var mu sync.Mutex
	told := map[string]int{}
	var all sync.WaitGroup
	for range 4 {
		names := make([]string, freshWindow/4)
		for i := range names {
			names[i] = r.next()
		}
		for range 2 {
			all.Go(func() {
				for _, name := range names {
					fresh := r.use(name)
					mu.Lock()
					if fresh {
						told[name]++
					}
					mu.Unlock()
				}
			})
		}
		all.Go(func() {
			for range freshWindow / 8 {
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
