package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// requireCredits asserts an account's credits, and that its ledger adds up to them. No single call is under way.
func requireCredits(t require.TestingT, s accountStore, account string, balance, reserved int64) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	requireCreditsOf(t, s, account, balance, reserved, 0)
}

// requireCreditsOf is requireCredits with single calls under way, which have reserved part of the balance.
func requireCreditsOf(t require.TestingT, s accountStore, account string, balance, reserved, bySingles int64) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.Equal(t, bySingles, s.ReservedBySingles(account), "reserved by singles under way")
	c, err := s.Credits(account)
	require.NoError(t, err)
	require.Equal(t, store.Credits{Balance: balance, Reserved: reserved}, c)
	require.NoError(t, s.CheckLedger(account))
	var sum int64
	for before := uint64(0); before != 1; {
		entries, err := s.Ledger(account, before, 0)
		require.NoError(t, err)
		if len(entries) == 0 {
			break
		}
		for _, e := range entries {
			sum += e.Amount
			before = e.Number
		}
	}
	require.Equal(t, balance, sum, "the balance is the sum of the ledger")
}

func conformLedger(t *testing.T, s accountStore) {
	ann := newCustomer(t, s, "ann@example.com", 10)
	requireCredits(t, s, ann, 10, 0)
	require.NoError(t, s.ReserveSingle(ann, "r1", 1))
	requireCreditsOf(t, s, ann, 10, 0, 1)
	require.NoError(t, s.Settle(ann, "r1", 1, noon))
	requireCredits(t, s, ann, 9, 0)
	require.NoError(t, s.ReserveSingle(ann, "r2", 1))
	require.NoError(t, s.Settle(ann, "r2", 0, noon))
	requireCredits(t, s, ann, 9, 0)
	require.NoError(t, s.Charge(ann, "r3", 1, noon))
	requireCredits(t, s, ann, 8, 0)
	told, err := s.Ledger(ann, 0, 0)
	require.NoError(t, err)
	require.Len(t, told, 7)
	for i, want := range []store.Entry{
		{Number: 7, ID: "single r3 charge", Kind: store.Charge, Credits: 1, Cause: "single r3", At: noon, Balance: 8},
		{Number: 6, ID: "single r3 reserve", Kind: store.Reserve, Credits: 1, Amount: -1, Cause: "single r3", At: noon,
			Balance: 8, Reserved: 1},
		{Number: 5, ID: "single r2 release", Kind: store.Release, Credits: 1, Amount: 1, Cause: "single r2", At: noon,
			Balance: 9},
		{Number: 4, ID: "single r2 reserve", Kind: store.Reserve, Credits: 1, Amount: -1, Cause: "single r2", At: noon,
			Balance: 8, Reserved: 1},
		{Number: 3, ID: "single r1 charge", Kind: store.Charge, Credits: 1, Cause: "single r1", At: noon, Balance: 9},
		{Number: 2, ID: "single r1 reserve", Kind: store.Reserve, Credits: 1, Amount: -1, Cause: "single r1", At: noon,
			Balance: 9, Reserved: 1},
	} {
		require.Equal(t, want, told[i])
	}
	// every page starts right, also between the two entries of a single call
	for before := uint64(1); before <= 8; before++ {
		page, err := s.Ledger(ann, before, 1)
		require.NoError(t, err)
		if before == 1 {
			require.Empty(t, page)
			continue
		}
		require.Equal(t, told[8-before:9-before], page)
	}

	require.NoError(t, s.ReserveSingle(ann, "held", 2))
	var less *store.ErrInsufficientCredits
	_, err = s.GrantCredits(ann, store.CreditGrant{Credits: -7, By: "test", Note: "more than is free"}, noon)
	require.ErrorAs(t, err, &less)
	require.Equal(t, store.ErrInsufficientCredits{Balance: 6, Needed: 7}, *less)
	require.ErrorAs(t, s.ReserveJob(ann, "j0", 7, noon), &less)
	require.Equal(t, store.ErrInsufficientCredits{Balance: 6, Needed: 7}, *less)
	require.ErrorAs(t, s.Charge(ann, "r0", 9, noon), &less)
	require.Equal(t, store.ErrInsufficientCredits{Balance: 6, Needed: 9}, *less)
	require.ErrorAs(t, s.ReserveSingle(ann, "r0", 7), &less)
	require.Equal(t, store.ErrInsufficientCredits{Balance: 6, Needed: 7}, *less)
	require.ErrorIs(t, s.Settle(ann, "held", 3, noon), store.ErrOverspent)
	requireCreditsOf(t, s, ann, 8, 0, 2)
	require.NoError(t, s.Settle(ann, "held", 0, noon))
	requireCredits(t, s, ann, 8, 0)

	require.NoError(t, s.ReserveJob(ann, "j1", 8, noon))
	requireCredits(t, s, ann, 0, 8)
	var short *store.ErrInsufficientCredits
	for _, err := range []error{
		s.ReserveSingle(ann, "r4", 1), s.Charge(ann, "r5", 1, noon), s.ReserveJob(ann, "j2", 1, noon),
	} {
		require.ErrorAs(t, err, &short)
		require.Equal(t, store.ErrInsufficientCredits{Balance: 0, Needed: 1}, *short)
	}
	_, err = s.GrantCredits(ann, store.CreditGrant{Credits: -1, By: "test", Note: "taken back"}, noon)
	require.ErrorAs(t, err, &short)
	s = s.Reopen(t)
	requireCredits(t, s, ann, 0, 8)
	require.ErrorIs(t, s.SettleJob(ann, "j1", 9, noon), store.ErrOverspent)
	require.ErrorIs(t, s.SettleJob(ann, "j1", -1, noon), store.ErrOverspent)
	require.NoError(t, s.SettleJob(ann, "j1", 5, noon))
	requireCredits(t, s, ann, 3, 0)

	c, err := s.GrantCredits(ann, store.CreditGrant{Credits: 7, By: "test", Note: "paid"}, noon)
	require.NoError(t, err)
	require.Equal(t, int64(10), c.Balance)
	_, err = s.GrantCredits(ann, store.CreditGrant{Credits: -4, By: "test", Note: "taken back"}, noon)
	require.NoError(t, err)
	_, err = s.GrantCredits(ann, store.CreditGrant{Credits: store.MaxCredits, By: "test", Note: "too much"}, noon)
	require.ErrorIs(t, err, store.ErrCreditsRange)
	_, err = s.GrantCredits("u_nobody", store.CreditGrant{Credits: 7, By: "test", Note: "paid"}, noon)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.ErrorIs(t, s.ReserveJob(ann, "j3", -1, noon), store.ErrCreditsRange)
	requireCredits(t, s, ann, 6, 0)

	entries, err := s.Ledger(ann, 0, 3)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.Equal(t, "taken back", entries[0].Cause)
	older, err := s.Ledger(ann, entries[2].Number, 2)
	require.NoError(t, err)
	require.Equal(t, entries[2].Number-1, older[0].Number)
	require.Equal(t, store.Charge, older[0].Kind)
	require.Equal(t, int64(5), older[0].Credits)
	require.Equal(t, "job j1", older[0].Cause)
	require.Zero(t, older[0].Amount)
}

func conformSettlingAgain(t *testing.T, s accountStore) {
	ann := newCustomer(t, s, "ann@example.com", 100)
	for range 2 {
		_, err := s.GrantCredits(ann, store.CreditGrant{ID: "voucher", Credits: 50, By: "test"}, noon)
		require.NoError(t, err)
		require.NoError(t, s.ReserveJob(ann, "j1", 60, noon))
		require.NoError(t, s.ReserveSingle(ann, "r1", 1))
	}
	requireCreditsOf(t, s, ann, 90, 60, 1)
	_, err := s.GrantCredits(ann, store.CreditGrant{ID: "voucher", Credits: 51, By: "test"}, noon)
	require.ErrorIs(t, err, store.ErrLedgerConflict)
	require.ErrorIs(t, s.ReserveJob(ann, "j1", 61, noon), store.ErrLedgerConflict)
	for range 2 {
		require.NoError(t, s.SettleJob(ann, "j1", 20, noon))
		require.NoError(t, s.Settle(ann, "r1", 1, noon))
		require.NoError(t, s.Charge(ann, "r2", 1, noon))
		s = s.Reopen(t)
	}
	requireCredits(t, s, ann, 128, 0)
	require.ErrorIs(t, s.SettleJob(ann, "j1", 21, noon), store.ErrLedgerConflict)
	require.ErrorIs(t, s.Settle(ann, "r1", 0, noon), store.ErrLedgerConflict)
	require.NoError(t, s.ReserveJob(ann, "j1", 60, noon), "its acceptance repeated after its end")
	require.NoError(t, s.ReserveSingle(ann, "r1", 1), "a single repeated after its end")
	require.NoError(t, s.Settle(ann, "r1", 1, noon))
	requireCredits(t, s, ann, 128, 0)
	require.NoError(t, s.ReserveSingle(ann, "r1", 2))
	require.ErrorIs(t, s.ReserveSingle(ann, "r1", 1), store.ErrLedgerConflict)
	require.ErrorIs(t, s.Settle(ann, "r1", 2, noon), store.ErrLedgerConflict)
	require.ErrorIs(t, s.Settle(ann, "r1", 0, noon), store.ErrLedgerConflict)
	requireCreditsOf(t, s, ann, 128, 0, 2)
	require.NoError(t, s.Settle(ann, "r1", 1, noon), "as it was settled at first")
	requireCredits(t, s, ann, 128, 0)
	for range 2 {
		require.NoError(t, s.ReserveSingle(ann, "r3", 1))
		require.NoError(t, s.Settle(ann, "r3", 0, noon))
	}
	require.NoError(t, s.ReserveSingle(ann, "r3", 1))
	require.ErrorIs(t, s.Settle(ann, "r3", 1, noon), store.ErrLedgerConflict, "it was released")
	require.NoError(t, s.Settle(ann, "r3", 0, noon))
	requireCredits(t, s, ann, 128, 0)
	require.NoError(t, s.ReserveJob(ann, "free", 0, noon))
	require.NoError(t, s.SettleJob(ann, "free", 0, noon))
	require.NoError(t, s.SettleJob(ann, "never reserved", 0, noon))
	require.ErrorIs(t, s.SettleJob(ann, "never reserved", 1, noon), store.ErrLedgerConflict)
	requireCredits(t, s, ann, 128, 0)
}

// conformNames: a name that the store makes is charged once, in this process and the next.
func conformNames(t *testing.T, s accountStore) {
	ann := newCustomer(t, s, "ann@example.com", 100)
	one, two, three := s.NewRequest(), s.NewRequest(), s.NewRequest()
	for range 3 {
		for range 2 {
			require.NoError(t, s.ReserveSingle(ann, one, 1))
			require.NoError(t, s.Settle(ann, one, 1, noon))
			require.NoError(t, s.Settle(ann, one, 1, noon))
			require.NoError(t, s.Charge(ann, two, 1, noon))
			require.NoError(t, s.ReserveSingle(ann, three, 1))
			require.NoError(t, s.Settle(ann, three, 0, noon))
			require.ErrorIs(t, s.Settle(ann, one, 0, noon), store.ErrLedgerConflict)
			require.ErrorIs(t, s.Settle(ann, three, 1, noon), store.ErrLedgerConflict)
			requireCredits(t, s, ann, 98, 0)
		}
		s = s.Reopen(t)
		require.NotEqual(t, one[:14], s.NewRequest()[:14], "another process")
	}
	r := store.Request{Account: ann, Endpoint: "single", Key: "k"}
	four := s.NewRequest()
	require.NoError(t, s.ReserveSingle(ann, four, 1))
	require.ErrorIs(t, s.SettleAndKeep(ann, four, 1, r, store.Answer{Status: 500}, noon), store.ErrAnswer)
	requireCreditsOf(t, s, ann, 98, 0, 1)
	for range 2 {
		require.NoError(t, s.SettleAndKeep(ann, four, 1, r, store.Answer{Status: 200}, noon),
			"an abandoned commit used nothing up")
	}
	requireCredits(t, s, ann, 97, 0)
}

func conformDeadSingles(t *testing.T, s accountStore) {
	ann, bob := newCustomer(t, s, "ann@example.com", 1000), newCustomer(t, s, "bob@example.com", 5)
	for i := range 600 {
		require.NoError(t, s.ReserveSingle(ann, "r"+string(rune('0'+i)), 1))
	}
	require.NoError(t, s.ReserveSingle(bob, "r1", 1))
	require.NoError(t, s.ReserveJob(bob, "j1", 3, noon))
	requireCreditsOf(t, s, ann, 1000, 0, 600)
	requireCreditsOf(t, s, bob, 2, 3, 1)
	s = s.Reopen(t)
	requireCredits(t, s, ann, 1000, 0)
	requireCredits(t, s, bob, 2, 3)
}
