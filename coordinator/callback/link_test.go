package callback

import (
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/outward"
	"probity/store"
)

// FuzzLink: a link that we did not make never opens a job's results.
func FuzzLink(f *testing.F) {
	s, err := store.Open(vfs.NewMem(), "state")
	require.NoError(f, err)
	f.Cleanup(func() { _ = s.Close() })
	now := time.Now()
	u, _, err := s.AddUser(f.Context(), store.NewUser{Email: "ann@example.com"}, "test", now)
	require.NoError(f, err)
	require.NoError(f, s.AcceptJob(&store.Job{ID: "j1", Account: u.ID, State: store.JobCompleted, CreatedAt: now}))
	sender, err := New(Config{Store: s, Results: &fakeRows{}, PublicURL: "https://verify.example.com",
		Record: func(*store.Job, store.Callback) ([]byte, error) { return nil, nil },
		Dialer: outward.New(outward.Config{})})
	require.NoError(f, err)
	in := strconv.FormatInt(now.Add(time.Hour).Unix(), 10)
	f.Add("j1", in, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("j1", "99999999999999999999", "")
	f.Add("j1\x00", "-1", "=")
	f.Fuzz(func(t *testing.T, job, expires, signature string) {
		_, err := sender.VerifyLink(job, expires, signature)
		require.Error(t, err)
	})
}
