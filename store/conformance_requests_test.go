package store_test

import (
	"cmp"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func conformAccountLimits(t *testing.T, s accountStore) {
	ann, bob := newCustomer(t, s, "ann@example.com", 0), newCustomer(t, s, "bob@example.com", 0)
	for i := range 30 {
		d := s.AllowSingle(ann, noon.Add(time.Duration(i)*time.Second))
		require.True(t, d.OK)
		require.Equal(t, 29-i, d.Remaining)
	}
	d := s.AllowSingle(ann, noon.Add(30*time.Second))
	require.Equal(t, store.Decision{Limit: 30, Per: time.Minute, Reset: 30 * time.Second, RetryAfter: 30 * time.Second},
		d)
	require.True(t, s.AllowSingle(bob, noon).OK)
	require.NoError(t, s.SetLimits(ann, store.Limits{SinglePerMinute: 31}, "test", noon))
	require.True(t, s.AllowSingle(ann, noon.Add(30*time.Second)).OK, "raised at once")
	require.False(t, s.AllowSingle(ann, noon.Add(30*time.Second)).OK)

	for i := range 10 {
		d, err := s.UploadsLeft(ann, noon)
		require.NoError(t, err)
		require.Equal(t, store.Decision{OK: true, Limit: 10, Per: time.Hour, Remaining: 10 - i, Reset: time.Hour}, d,
			"a look does not count")
		d, err = s.CountOneUpload(ann, noon)
		require.NoError(t, err)
		require.Equal(t, 9-i, d.Remaining)
	}
	n, err := s.SweepWindows(noon.Add(time.Hour - 1))
	require.NoError(t, err)
	require.Zero(t, n)
	s = s.Reopen(t)
	d, err = s.UploadsLeft(ann, noon.Add(59*time.Minute))
	require.NoError(t, err)
	full := store.Decision{Limit: 10, Per: time.Hour, Reset: time.Minute, RetryAfter: time.Minute}
	require.Equal(t, full, d)
	_, err = s.CountOneUpload(ann, noon.Add(59*time.Minute))
	require.Equal(t, &store.OverLimitError{Decision: full}, err)
	_, err = s.CountOneUpload(bob, noon)
	require.NoError(t, err)
	n, err = s.SweepWindows(noon.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	d, err = s.CountOneUpload(ann, noon.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, 9, d.Remaining)
}

func conformPublicLimits(t *testing.T, s accountStore) {
	perDay := 1000
	allow := func(client string, at time.Time) store.Decision {
		t.Helper()
		d, err := s.AllowPublic(netip.MustParseAddr(client), perDay, at)
		require.NoError(t, err)
		return d
	}
	for i := range 3 {
		d := allow("192.0.2.1", noon.Add(time.Duration(i)*time.Hour))
		require.True(t, d.OK)
		require.Equal(t, 2-i, d.Remaining)
		require.Equal(t, 3, d.Limit)
	}
	s = s.Reopen(t)
	d := allow("::ffff:192.0.2.1", noon.Add(3*time.Hour))
	require.Equal(t, store.Decision{Limit: 3, Per: 24 * time.Hour, Reset: 21 * time.Hour, RetryAfter: 21 * time.Hour},
		d, "the same client, mapped")
	require.True(t, allow("192.0.2.2", noon).OK)

	// Ten in a week: three a day for three days, then one.
	for i := 1; i <= 2; i++ {
		for range 3 {
			require.True(t, allow("192.0.2.1", noon.Add(time.Duration(i)*27*time.Hour)).OK)
		}
	}
	require.True(t, allow("192.0.2.1", noon.Add(81*time.Hour)).OK)
	d = allow("192.0.2.1", noon.Add(82*time.Hour))
	require.Equal(t, 10, d.Limit)
	require.Equal(t, 7*24*time.Hour-82*time.Hour, d.RetryAfter)

	// IPv6 counts by /64, and a /48 has ten times as much.
	for i := range 3 {
		require.True(t, allow("2001:db8:1:1::"+string(rune('1'+i)), noon).OK)
	}
	require.False(t, allow("2001:db8:1:1:ffff::9", noon).OK)
	for i := range 27 {
		require.True(t, allow(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 1, byte(i)}).String(), noon).OK)
	}
	require.False(t, allow("2001:db8:1:eeee::1", noon).OK, "the /48 is used up")
	require.True(t, allow("2001:db8:2::1", noon).OK)

	perDay = 40
	later := noon.Add(30 * 24 * time.Hour)
	for i := range 40 {
		require.True(t, allow(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}).String(), later).OK)
	}
	d = allow("203.0.113.1", later.Add(time.Hour))
	require.False(t, d.OK)
	require.Equal(t, 23*time.Hour, d.RetryAfter)
	require.Equal(t, 2, allow("203.0.113.1", later.Add(24*time.Hour)).Remaining, "the refused one counted nowhere")
}

func conformIdempotency(t *testing.T, s accountStore) {
	ann, bob := newCustomer(t, s, "ann@example.com", 10), newCustomer(t, s, "bob@example.com", 10)
	r := store.Request{Account: ann, Endpoint: "single", Key: "k\x00 1", Digest: store.KeyHash{1}}
	other := r
	other.Digest = store.KeyHash{2}
	claimed := func(r store.Request, at time.Time) {
		t.Helper()
		_, kept, err := s.BeginRequest(r, at)
		require.NoError(t, err)
		require.False(t, kept)
	}
	refused := func(r store.Request, at time.Time, want error) {
		t.Helper()
		_, _, err := s.BeginRequest(r, at)
		require.ErrorIs(t, err, want)
	}
	claimed(r, noon)
	refused(r, noon, store.ErrInFlight)
	refused(other, noon, store.ErrMismatch)
	for _, free := range []store.Request{
		{Account: bob, Endpoint: "single", Key: r.Key}, {Account: ann, Endpoint: "bulk", Key: r.Key},
		{Account: ann, Endpoint: "single", Key: "k2"},
	} {
		claimed(free, noon)
	}
	s.EndRequest(r)
	claimed(other, noon) // released without an answer: another body may have the key
	s = s.Reopen(t)
	claimed(r, noon) // the process that claimed it is dead

	answer := store.Answer{Status: 200, Location: "/x", Body: []byte(`{"status":"VALID"}`)}
	require.NoError(t, s.ReserveSingle(ann, "r1", 1))
	bad := store.Answer{Status: 402}
	require.ErrorIs(t, s.SettleAndKeep(ann, "r1", 1, r, bad, noon), store.ErrAnswer)
	requireCreditsOf(t, s, ann, 10, 0, 1)
	require.NoError(t, s.SettleAndKeep(ann, "r1", 1, r, answer, noon))
	requireCredits(t, s, ann, 9, 0)
	s.EndRequest(r)
	s = s.Reopen(t)
	got, kept, err := s.BeginRequest(r, noon.Add(24*time.Hour-1))
	require.NoError(t, err)
	require.True(t, kept)
	require.Equal(t, answer.Body, got.Body)
	require.Equal(t, "/x", got.Location)
	refused(other, noon, store.ErrMismatch)
	refused(store.Request{Account: ann}, noon, store.ErrIdempotencyKey)

	n, err := s.SweepAnswers(noon.Add(24*time.Hour - 1))
	require.NoError(t, err)
	require.Zero(t, n)
	claimed(other, noon.Add(24*time.Hour))
	n, err = s.SweepAnswers(noon.Add(24 * time.Hour))
	require.NoError(t, err)
	require.Equal(t, 1, n)

	require.NoError(t, s.ReserveSingle(bob, "r2", 1))
	r.Account = bob
	require.NoError(t, s.SettleAndKeep(bob, "r2", 1, r, answer, noon))
	n, err = s.EraseAnswers(func(body []byte) bool { return string(body) == "another" })
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.EraseAnswers(func(body []byte) bool { return string(body) == string(answer.Body) })
	require.NoError(t, err)
	require.Equal(t, 1, n)
	claimed(r, noon)
}

func conformSuppress(t *testing.T, s accountStore) {
	require.NoError(t, s.Suppress([]store.Suppression{
		{Kind: store.SuppressionDomain, Name: "Example.COM.", Note: "asked by mail", By: "test"},
		{Kind: store.SuppressionMX, Name: "mx.example.net"},
		{Kind: store.SuppressionAddress, Name: "Ann@Example.org"},
	}, noon))
	for _, note := range []string{"", "asked by mail", "asked by phone", "asked by phone"} {
		again := []store.Suppression{{Kind: store.SuppressionDomain, Name: "example.com", Note: note, By: "other"}}
		require.NoError(t, s.Suppress(again, noon.Add(time.Hour)))
		want := store.Suppression{Kind: store.SuppressionDomain, Name: "example.com",
			Note: cmp.Or(note, "asked by mail"), By: "test", Since: noon}
		require.Equal(t, []store.Suppression{want}, again)
		found, _ := s.SuppressedDomain("example.com", nil)
		require.Equal(t, want, found)
	}
	events, err := s.AuditEvents("", 10)
	require.NoError(t, err)
	require.Len(t, events, 4, "three suppressions and one other note")
	for _, x := range []store.Suppression{
		{Kind: store.SuppressionDomain, Name: "com"}, {Kind: store.SuppressionDomain, Name: ""},
		{Kind: store.SuppressionDomain, Name: "a@example.com"},
		{Kind: store.SuppressionAddress, Name: "example.com"}, {Kind: store.SuppressionAddress, Name: "@example.com"},
		{Kind: "host", Name: "example.com"},
		{Kind: store.SuppressionMX, Name: "mx example.net"},
	} {
		require.ErrorIs(t, s.Suppress([]store.Suppression{{Kind: store.SuppressionDomain, Name: "good.example"}, x},
			noon), store.ErrBadSuppression, "%+v", x)
	}
	for range 2 {
		for _, c := range []struct {
			domain string
			host   string
			want   bool
		}{
			{"example.com", "", true}, {"mail.example.com", "", true}, {"badexample.com", "", false},
			{"com", "", false},
			{"other.org", "mx.example.net", true}, {"other.org", "1.mx.example.net", true},
			{"other.org", "example.net", false},
			{"other.org", "mx2.example.net", false}, {"mx.example.net", "", false},
		} {
			_, got := s.SuppressedDomain(c.domain, []string{"mx.elsewhere.org", c.host})
			require.Equal(t, c.want, got, "%+v", c)
		}
		x, ok := s.SuppressedAddress("ann@example.org")
		require.True(t, ok)
		require.Equal(t, noon, x.Since)
		_, ok = s.SuppressedAddress("bob@example.org")
		require.False(t, ok)
		s = s.Reopen(t)
	}
	list, err := s.Suppressions()
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.NoError(t, s.Unsuppress(store.SuppressionDomain, "EXAMPLE.com", "test", noon))
	require.ErrorIs(t, s.Unsuppress(store.SuppressionDomain, "example.com", "test", noon), store.ErrNotFound)
	_, ok := s.SuppressedDomain("example.com", nil)
	require.False(t, ok)
}

func conformSettings(t *testing.T, s accountStore) {
	ann := newCustomer(t, s, "ann@example.com", 0)
	a, err := s.Secret("links")
	require.NoError(t, err)
	require.Len(t, a, 32)
	b, err := s.Secret("others")
	require.NoError(t, err)
	require.NotEqual(t, a, b)
	made, err := s.NewCallbackSecret(ann, "test", noon)
	require.NoError(t, err)
	s = s.Reopen(t)
	again, err := s.Secret("links")
	require.NoError(t, err)
	require.Equal(t, a, again)
	require.Regexp(t, "^whsec_[0-9A-Za-z+/]{43}=$", made)
	signing := func(at time.Time) store.Signing {
		v, err := s.Signing(ann, at)
		require.NoError(t, err)
		return v
	}
	require.Equal(t, store.Signing{Secret: made}, signing(noon))
	rotated, err := s.NewCallbackSecret(ann, "test", noon)
	require.NoError(t, err)
	until := noon.Add(store.SecretOverlap)
	require.Equal(t, store.Signing{Secret: rotated, Former: made, Until: until}, signing(until.Add(-1)))
	require.Equal(t, store.Signing{Secret: rotated}, signing(until))
	require.NoError(t, s.DropCallbackSecrets(ann, "test", noon))
	require.Zero(t, signing(noon))
	_, err = s.NewCallbackSecret("u_nobody", "test", noon)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func conformAudit(t *testing.T, s accountStore) {
	ann := newCustomer(t, s, "ann@example.com", 0)
	require.NoError(t, s.DisableUser(ann, "root", noon.Add(time.Second)))
	require.Error(t, s.DisableUser("u_nobody", "root", noon.Add(time.Second)), "what did not happen is not recorded")
	require.NoError(t, s.Audit(store.AuditEvent{At: noon.Add(2 * time.Second), By: "root", Action: "erase"}))
	s = s.Reopen(t)
	first, err := s.AuditEvents("", 2)
	require.NoError(t, err)
	require.Len(t, first, 2)
	require.Equal(t, "erase", first[0].Action)
	require.Equal(t, "user disable", first[1].Action)
	require.Equal(t, "root", first[1].By)
	rest, err := s.AuditEvents(first[1].Cursor, 0)
	require.NoError(t, err)
	require.Len(t, rest, 1)
	require.Equal(t, "user add", rest[0].Action)
	_, err = s.AuditEvents("no cursor", 2)
	require.Error(t, err)

	require.NoError(t, s.EnableUser(ann, store.AuditActor("root", "192.0.2.7"), noon.Add(3*time.Second)))
	last, err := s.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, "root", last[0].By)
	require.Equal(t, "192.0.2.7", last[0].From, "who, what, when, and from where")
	never, err := s.LastBackup()
	require.NoError(t, err)
	require.True(t, never.IsZero())
	require.NoError(t, s.RecordBackup("root", noon.Add(4*time.Second)))
	at, err := s.Reopen(t).LastBackup()
	require.NoError(t, err)
	require.True(t, at.Equal(noon.Add(4*time.Second)), at)
}

func conformCallbacks(t *testing.T, s accountStore) {
	ann := newCustomer(t, s, "ann@example.com", 0)
	_, err := s.Callback("j1")
	require.ErrorIs(t, err, store.ErrNoCallback)
	require.NoError(t, s.ScheduleCallback(ann, "j2", noon.Add(time.Second)))
	for range 2 {
		require.NoError(t, s.ScheduleCallback(ann, "j1", noon))
	}
	due := func(at time.Time) (jobs []string) {
		t.Helper()
		for at, mark := at, (store.DueCursor{}); ; { // one at a time
			list, next, err := s.DueCallbacks(at, mark, 1)
			require.NoError(t, err)
			for _, c := range list {
				jobs = append(jobs, c.Job)
			}
			mark = next
			if next == (store.DueCursor{}) {
				all, next, err := s.DueCallbacks(at, mark, 0)
				require.NoError(t, err)
				require.Zero(t, next)
				require.Len(t, all, len(jobs))
				return jobs
			}
		}
	}
	require.Empty(t, due(noon.Add(-1)))
	require.Equal(t, []string{"j1"}, due(noon))
	require.Equal(t, []string{"j1", "j2"}, due(noon.Add(time.Hour)))

	// Nine attempts: at once and after each delay of the schedule; then no more.
	now := noon
	waits := []time.Duration{5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
		6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
	for i, wait := range waits {
		for range 2 { // recorded again after a crash: nothing changes
			c, err := s.RecordAttempt("j1", store.Attempt{Number: i + 1, At: now, Status: 500},
				store.Outcome{State: store.CallbackPending, Jitter: 1, Link: i == 2}, now)
			require.NoError(t, err)
			require.Equal(t, i+1, c.Attempts)
			require.Equal(t, now.Add(wait+wait/5), c.Next)
			require.Equal(t, i >= 2, c.Link)
		}
		s = s.Reopen(t)
		now = now.Add(wait + wait/5)
		require.Contains(t, due(now), "j1")
		require.NotContains(t, due(now.Add(-1)), "j1")
	}
	_, err = s.RecordAttempt("j1", store.Attempt{Number: 11}, store.Outcome{State: store.CallbackPending}, now)
	require.Error(t, err, "an attempt is missing")
	c, err := s.RecordAttempt("j1", store.Attempt{Number: 9, At: now, Error: "refused", Truncated: true},
		store.Outcome{State: store.CallbackPending}, now)
	require.NoError(t, err)
	require.Equal(t, store.CallbackFailed, c.State)
	require.Equal(t, []string{"j2"}, due(now.Add(1000*time.Hour)))
	c, err = s.Callback("j2")
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Second), c.Next)

	c, err = s.ResendCallback("j1", now)
	require.NoError(t, err)
	require.Equal(t, store.CallbackPending, c.State)
	c, err = s.RecordAttempt("j1", store.Attempt{Number: 10, At: now, Status: 204},
		store.Outcome{State: store.CallbackDelivered}, now)
	require.NoError(t, err)
	require.Equal(t, store.CallbackDelivered, c.State)
	log, err := s.CallbackLog("j1")
	require.NoError(t, err)
	require.Len(t, log, 10)
	require.Equal(t, "refused", log[8].Error)
	require.Equal(t, []bool{false, true, false}, []bool{log[7].Truncated, log[8].Truncated, log[9].Truncated})

	for i := range store.MaxAttempts {
		_, err := s.ResendCallback("j1", now)
		require.NoError(t, err)
		_, err = s.RecordAttempt("j1", store.Attempt{Number: 11 + i, At: now, Status: 410},
			store.Outcome{State: store.CallbackStopped}, now)
		require.NoError(t, err)
	}
	log, err = s.CallbackLog("j1")
	require.NoError(t, err)
	require.Len(t, log, store.MaxAttempts)

	for _, job := range []string{"j1", "j2", "j2"} {
		require.NoError(t, s.DropCallback(ann, job))
	}
	require.Empty(t, due(now.Add(1000*time.Hour)))
	log, err = s.CallbackLog("j1")
	require.NoError(t, err)
	require.Empty(t, log)
	_, err = s.ResendCallback("j1", now)
	require.ErrorIs(t, err, store.ErrNoCallback)
}
