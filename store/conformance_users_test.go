package store_test

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func conformUsers(t *testing.T, s accountStore) {
	ctx := t.Context()
	ann, password, err := s.AddUser(ctx, store.NewUser{Email: " Ann@Example.com", Credits: 5}, "test", noon)
	require.NoError(t, err)
	require.Equal(t, "Ann@Example.com", ann.Email)
	require.Equal(t, store.Customer, ann.Role)
	require.Len(t, password, 20)
	require.Equal(t, 30, ann.SinglePerMinute())
	require.Equal(t, 10, ann.BulkPerHour())

	for _, c := range []struct {
		n    store.NewUser
		want error
	}{
		{store.NewUser{Email: "ann@EXAMPLE.com"}, store.ErrEmailTaken},
		{store.NewUser{Email: "nobody"}, store.ErrBadEmail},
		{store.NewUser{Email: "a b@example.com"}, store.ErrBadEmail},
		{store.NewUser{Email: "@example.com"}, store.ErrBadEmail},
		{store.NewUser{Email: "bob@example.com", Role: "root"}, store.ErrBadRole},
		{store.NewUser{Email: "bob@example.com", Password: "short"}, store.ErrPasswordLength},
		{store.NewUser{Email: "bob@example.com", Limits: store.Limits{BulkPerHour: -1}}, store.ErrBadLimit},
		{store.NewUser{Email: "bob@example.com", Credits: store.MaxCredits + 1}, store.ErrCreditsRange},
	} {
		_, _, err := s.AddUser(ctx, c.n, "test", noon)
		require.ErrorIs(t, err, c.want, "%+v", c.n)
	}
	require.Len(t, s.Users(), 1, "a refused account leaves nothing")

	require.NoError(t, s.SetLimits(ann.ID, store.Limits{SinglePerMinute: 600}, "test", noon.Add(time.Second)))
	logged, err := s.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, "single 600/min, batch default, bulk default", logged[0].Note)
	require.ErrorIs(t, s.SetLimits(ann.ID, store.Limits{SinglePerMinute: -1}, "test", noon), store.ErrBadLimit)
	require.ErrorIs(t, s.SetLimits("u_nobody", store.Limits{}, "test", noon), store.ErrNotFound)
	require.NoError(t, s.SetPassword(ctx, ann.ID, store.NewPassword{Password: "another password", By: "test"}, noon))

	s = s.Reopen(t)
	got, err := s.UserByEmail("ANN@example.com")
	require.NoError(t, err)
	require.Equal(t, 600, got.SinglePerMinute())
	require.Equal(t, ann.ID, got.ID)
	_, err = s.CheckPassword(ctx, store.Login{Email: "ann@example.com", Password: password}, noon)
	require.ErrorIs(t, err, store.ErrBadCredentials)
	_, err = s.CheckPassword(ctx, store.Login{Email: "ANN@example.com ", Password: "another password"}, noon)
	require.NoError(t, err)
	_, err = s.CheckPassword(ctx, store.Login{Email: "nobody@example.com", Password: "another password"}, noon)
	require.ErrorIs(t, err, store.ErrBadCredentials)

	require.NoError(t, s.DisableUser(ann.ID, "test", noon))
	_, err = s.CheckPassword(ctx, store.Login{Email: "ann@example.com", Password: "another password"}, noon)
	require.ErrorIs(t, err, store.ErrDisabled)
	require.NoError(t, s.EnableUser(ann.ID, "test", noon))
	_, err = s.CheckPassword(ctx, store.Login{Email: "ann@example.com", Password: "another password"}, noon)
	require.NoError(t, err)
	_, err = s.User("u_nobody")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.UserByEmail("nobody@example.com")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// conformLastAdmin requires that admins who disable each other at one time leave one.
func conformLastAdmin(t *testing.T, s accountStore) {
	var admins []string
	for _, email := range []string{"root@example.com", "deputy@example.com"} {
		u, _, err := s.AddUser(t.Context(), store.NewUser{Email: email, Role: store.Admin}, "test", noon)
		require.NoError(t, err)
		admins = append(admins, u.ID)
	}
	customer := newCustomer(t, s, "ann@example.com", 0)
	var errs [2]error
	var both sync.WaitGroup
	for i, id := range admins {
		both.Go(func() { errs[i] = s.DisableUser(id, "test", noon) })
	}
	both.Wait()
	if errs[0] != nil {
		slices.Reverse(errs[:])
		slices.Reverse(admins)
	}
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], store.ErrLastAdmin)
	require.NoError(t, s.DisableUser(admins[0], "test", noon), "it is disabled already")
	require.NoError(t, s.DisableUser(customer, "test", noon))
	require.NoError(t, s.EnableUser(admins[0], "test", noon))
	require.NoError(t, s.DisableUser(admins[1], "test", noon))
}

func conformFirstAdmin(t *testing.T, s accountStore) {
	ctx := t.Context()
	const password = "a first password"
	u, made, err := s.FirstAdmin(ctx, "admin@localhost", password, 1_000_000, noon)
	require.NoError(t, err)
	require.True(t, made)
	require.Equal(t, store.Admin, u.Role)
	c, err := s.Credits(u.ID)
	require.NoError(t, err)
	require.Equal(t, store.Credits{Balance: 1_000_000}, c)
	_, err = s.CheckPassword(ctx, store.Login{Email: "admin@localhost", Password: password}, noon)
	require.NoError(t, err)

	s = s.Reopen(t)
	_, made, err = s.FirstAdmin(ctx, "other@localhost", password, 1, noon)
	require.NoError(t, err)
	require.False(t, made)
	require.Len(t, s.Users(), 1)
}

func conformLockout(t *testing.T, s accountStore) {
	ctx, now := t.Context(), noon
	newCustomer(t, s, "ann@example.com", 0)
	attacker, owner := netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("198.51.100.1")
	try := func(email, password string, from netip.Addr, at time.Time) error {
		_, err := s.CheckPassword(ctx, store.Login{Email: email, Password: password, From: from}, at)
		return err
	}
	for _, email := range []string{"ann@example.com", "nobody@example.com"} { // one has an account, one has not
		for range 5 {
			require.ErrorIs(t, try(email, "wrong password", attacker, now), store.ErrBadCredentials, email)
		}
		var locked *store.ErrLockedOut
		require.ErrorAs(t, try(strings.ToUpper(email), "long enough", netip.MustParseAddr("203.0.113.77"),
			now.Add(59*time.Second)), &locked, email)
		require.Equal(t, now.Add(time.Minute), locked.Until, email)
	}
	require.NoError(t, try("ann@example.com", "long enough", owner, now), "failures from elsewhere lock no owner out")
	now = now.Add(time.Minute)
	require.NoError(t, try("ann@example.com", "long enough", attacker, now))
	for range 5 {
		require.ErrorIs(t, try("ann@example.com", "wrong password", attacker, now), store.ErrBadCredentials,
			"a success forgets the failures")
	}
	require.Error(t, try("ann@example.com", "long enough", attacker, now))
	u, err := s.UserByEmail("ann@example.com")
	require.NoError(t, err)
	require.NoError(t, s.SetPassword(ctx, u.ID, store.NewPassword{Password: "another password", By: "test"}, now))
	require.NoError(t, try("ann@example.com", "another password", attacker, now), "a new password lifts the lock-out")
}

func conformKeys(t *testing.T, s accountStore) {
	ann, bob := newCustomer(t, s, "ann@example.com", 0), newCustomer(t, s, "bob@example.com", 0)
	live, k, err := s.CreateKey(ann, store.NewKey{Name: "shop"}, "test", noon)
	require.NoError(t, err)
	require.Equal(t, live[len(live)-4:], k.Last4)
	test, _, err := s.CreateKey(ann, store.NewKey{Name: "trial", Test: true}, "test", noon)
	require.NoError(t, err)
	_, _, err = s.CreateKey("u_nobody", store.NewKey{Name: "shop"}, "test", noon)
	require.ErrorIs(t, err, store.ErrNotFound)
	_, _, err = s.CreateKey(ann, store.NewKey{Name: ""}, "test", noon)
	require.ErrorIs(t, err, store.ErrBadName)

	used := noon.Add(time.Hour)
	id, err := s.Authenticate(live, used)
	require.NoError(t, err)
	require.Equal(t, ann, id.User.ID)
	require.Equal(t, k.ID, id.Key)
	require.False(t, id.Test)
	require.NoError(t, s.WriteLastUsed())

	s = s.Reopen(t)
	id, err = s.Authenticate(test, used)
	require.NoError(t, err)
	require.True(t, id.Test)
	keys, err := s.Keys(ann)
	require.NoError(t, err)
	require.Len(t, keys, 2)
	for _, one := range keys {
		require.Equal(t, used, one.LastUsed)
	}

	require.ErrorIs(t, s.RevokeKey(bob, k.ID, "test", noon), store.ErrNotFound, "another account's key")
	require.NoError(t, s.RevokeKey(ann, k.ID, "test", noon))
	require.ErrorIs(t, s.RevokeKey(ann, k.ID, "test", noon), store.ErrNotFound)
	refused := func(secret string) {
		t.Helper()
		_, err := s.Authenticate(secret, noon)
		require.ErrorIs(t, err, store.ErrBadKey)
	}
	refused(live)
	refused("")
	refused(live[:len(live)-1] + "!")
	require.NoError(t, s.DisableUser(ann, "test", noon))
	refused(test)
	require.NoError(t, s.EnableUser(ann, "test", noon))
	_, err = s.Authenticate(test, noon)
	require.NoError(t, err)

	for i := range store.MaxKeys {
		_, _, err = s.CreateKey(bob, store.NewKey{Name: "many"}, "test", noon)
		require.NoError(t, err, i)
	}
	_, _, err = s.CreateKey(bob, store.NewKey{Name: "one more"}, "test", noon)
	require.ErrorIs(t, err, store.ErrTooManyKeys)
	s = s.Reopen(t)
	refused(live)
	all, err := s.Keys("")
	require.NoError(t, err)
	require.Len(t, all, store.MaxKeys+1)
}

func conformSessions(t *testing.T, s accountStore) {
	ann, bob := newCustomer(t, s, "ann@example.com", 0), newCustomer(t, s, "bob@example.com", 0)
	token, one, err := s.CreateSession(ann, "a browser", time.Hour, noon)
	require.NoError(t, err)
	s = s.Reopen(t)
	got, u, err := s.Session(token, noon.Add(time.Hour-1))
	require.NoError(t, err)
	require.Equal(t, one, got)
	require.Equal(t, ann, u.ID)
	ended := func(token string, at time.Time) {
		t.Helper()
		_, _, err := s.Session(token, at)
		require.ErrorIs(t, err, store.ErrNoSession)
	}
	ended(token, noon.Add(time.Hour))
	ended("", noon)
	ended(token[:len(token)-1]+"!", noon)

	second, other, err := s.CreateSession(ann, "", time.Hour, noon.Add(time.Minute))
	require.NoError(t, err)
	list, err := s.Sessions(ann, noon)
	require.NoError(t, err)
	require.Equal(t, []store.Session{other, one}, list, "newest first")
	require.ErrorIs(t, s.EndSession(bob, one.ID), store.ErrNoSession, "another account's session")
	require.NoError(t, s.EndSession(ann, one.ID))
	ended(token, noon)

	third, _, err := s.CreateSession(ann, "", time.Hour, noon)
	require.NoError(t, err)
	require.NoError(t, s.SetPassword(t.Context(), ann,
		store.NewPassword{Password: "another password", Keep: other.ID, By: "test"}, noon))
	ended(third, noon)
	_, _, err = s.Session(second, noon)
	require.NoError(t, err, "the one that changed the password")
	require.NoError(t, s.DisableUser(ann, "test", noon))
	ended(second, noon)
	_, _, err = s.CreateSession(ann, "", time.Hour, noon)
	require.ErrorIs(t, err, store.ErrDisabled)
	require.NoError(t, s.EnableUser(ann, "test", noon))
	ended(second, noon)

	var oldest string
	for i := range store.MaxSessions + 1 {
		token, _, err := s.CreateSession(bob, "", time.Hour, noon.Add(time.Duration(i)*time.Second))
		require.NoError(t, err)
		if i == 0 {
			oldest = token
		}
	}
	ended(oldest, noon)
	list, err = s.Sessions(bob, noon)
	require.NoError(t, err)
	require.Len(t, list, store.MaxSessions)
	n, err := s.SweepSessions(noon.Add(time.Hour + 10*time.Second))
	require.NoError(t, err)
	require.Equal(t, 10, n)
	require.NoError(t, s.EndSessions(bob, list[0].ID))
	list, err = s.Sessions(bob, noon)
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestCSRF(t *testing.T) {
	a, b := store.CSRFToken("session a"), store.CSRFToken("session b")
	require.NotEqual(t, a, b)
	require.True(t, store.CheckCSRF("session a", a))
	require.False(t, store.CheckCSRF("session a", b))
	require.False(t, store.CheckCSRF("session a", ""))
}
