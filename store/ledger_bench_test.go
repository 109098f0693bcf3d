package store_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store"
)

// BenchmarkSinglesOfOneAccount measures the ledger on a real disk with a busy account: 32 concurrent single calls, a
// reservation and a settlement each.
func BenchmarkSinglesOfOneAccount(b *testing.B) {
	s, err := store.Open(vfs.Default, b.TempDir())
	require.NoError(b, err)
	defer s.Close()
	u, _, err := s.AddUser(b.Context(), store.NewUser{Email: "ann@example.com", Credits: 1e9}, "bench", noon)
	require.NoError(b, err)
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ref := s.NewRequest()
			if err := s.ReserveSingle(u.ID, ref, 1); err != nil {
				b.Error(err)
			}
			if err := s.SettleSingle(u.ID, ref, 1, noon); err != nil {
				b.Error(err)
			}
		}
	})
}
