package api

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFirstSingle(t *testing.T) {
	w := newWorld(t, nil)
	r := w.single(`{"email":"ann@shop.test"}`)
	require.Equal(t, 200, r.status, "%s", r.body)
	var keys []string
	for k := range r.json(t) {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	require.Equal(t, strings.Fields("credits_used domain_exists email from_cache is_disposable is_free_email is_role_based mx_records reason "+
		"score smtp_provider smtp_valid status syntax_valid verified_at"), keys)
	require.EqualValues(t, creditsAtFirst-1, w.credits().Balance)
}

func TestParallelSinglesOnOneCredit(t *testing.T) {
	w := newWorld(t, nil)
	_, key := w.customer("poor@probity.test", 1)
	release := w.prober.holdAnswers()
	var mu sync.Mutex
	got := map[int]int{}
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			r := w.post("/v1/verify/single", key, fmt.Sprintf(`{"email":"ann%d@shop.test"}`, i))
			mu.Lock()
			defer mu.Unlock()
			if got[r.status]++; got[402] == 29 {
				release()
			}
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{200: 1, 402: 29}, got)
}
