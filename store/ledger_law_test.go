package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/store"
)

// books is the ledger as a person would keep it: what each piece of work holds, and what was settled.
type books struct {
	balance, reserved int64
	open, settled     map[string]int64 // work to credits
	single            map[string]bool
}

func newBooks(balance int64) *books {
	return &books{balance: balance, open: map[string]int64{}, settled: map[string]int64{}, single: map[string]bool{}}
}

func (m *books) reserve(ref string, n int64, single bool) (covered bool) {
	if n > m.balance {
		return false
	}
	m.balance, m.reserved = m.balance-n, m.reserved+n
	m.open[ref], m.single[ref] = n, single
	return true
}

func (m *books) settle(ref string, used int64) {
	n := m.open[ref]
	m.balance, m.reserved = m.balance+n-used, m.reserved-n
	m.settled[ref] = used
	delete(m.open, ref)
}

func (m *books) restart() {
	for ref := range m.open {
		if m.single[ref] {
			m.settle(ref, 0)
		}
	}
}

func (m *books) pick(rt *rapid.T, from map[string]int64, single bool) (string, bool) {
	var refs []string
	for ref := range from {
		if m.single[ref] == single {
			refs = append(refs, ref)
		}
	}
	if len(refs) == 0 {
		return "", false
	}
	slices.Sort(refs)
	return rapid.SampledFrom(refs).Draw(rt, "work"), true
}

// TestLedgerLaw drives a store and the books with the same acts, repeated acts and restarts, and compares.
func TestLedgerLaw(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := openOn(rt, vfs.NewMem())
		defer func() { require.NoError(rt, s.Close()) }()
		u, _, err := s.AddUser(t.Context(), store.NewUser{Email: "ann@example.com", Password: "long enough", Credits: 20}, "test", noon)
		require.NoError(rt, err)
		acts := &ledgerActs{s: s, account: u.ID, m: newBooks(20)}
		rt.Repeat(map[string]func(*rapid.T){
			"grant": acts.grant, "reserve": acts.reserve, "settle": acts.settle, "charge": acts.charge,
			"settle again": acts.settleAgain, "restart": acts.restart,
			"": func(rt *rapid.T) { stands(rt, s, u.ID, acts.m.balance, acts.m.reserved) },
		})
	})
}

type ledgerActs struct {
	s       *embedded
	account string
	m       *books
	made    int
}

func (a *ledgerActs) ref() string { a.made++; return fmt.Sprint("w", a.made) }

func (a *ledgerActs) grant(rt *rapid.T) {
	n := int64(rapid.IntRange(-10, 10).Draw(rt, "credits"))
	_, err := a.s.GrantCredits(a.account, a.ref(), n, "test", "", noon)
	if a.m.balance+n < 0 {
		require.ErrorAs(rt, err, new(*store.ErrInsufficientCredits))
		return
	}
	require.NoError(rt, err)
	a.m.balance += n
}

func (a *ledgerActs) reserve(rt *rapid.T) {
	single, n := rapid.Bool().Draw(rt, "single"), int64(rapid.IntRange(1, 12).Draw(rt, "credits"))
	ref, verb := a.ref(), a.s.ReserveJob
	if single {
		verb = a.s.ReserveSingle
	}
	covered := a.m.reserve(ref, n, single)
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		err := verb(a.account, ref, n, noon)
		var short *store.ErrInsufficientCredits
		require.Equal(rt, !covered, errors.As(err, &short))
		if covered {
			require.NoError(rt, err)
		} else {
			require.Equal(rt, store.ErrInsufficientCredits{Balance: a.m.balance, Needed: n}, *short)
		}
	}
}

func (a *ledgerActs) settle(rt *rapid.T) {
	single := rapid.Bool().Draw(rt, "single")
	ref, ok := a.m.pick(rt, a.m.open, single)
	if !ok {
		return
	}
	used := int64(rapid.IntRange(0, int(a.m.open[ref])+1).Draw(rt, "used"))
	err := a.verb(single)(a.account, ref, used, noon)
	if used > a.m.open[ref] {
		require.ErrorIs(rt, err, store.ErrOverspent)
		return
	}
	require.NoError(rt, err)
	a.m.settle(ref, used)
}

func (a *ledgerActs) verb(single bool) func(account, ref string, used int64, now time.Time) error {
	if single {
		return a.s.Settle
	}
	return a.s.SettleJob
}

func (a *ledgerActs) settleAgain(rt *rapid.T) {
	single := rapid.Bool().Draw(rt, "single")
	ref, ok := a.m.pick(rt, a.m.settled, single)
	if !ok {
		return
	}
	require.NoError(rt, a.verb(single)(a.account, ref, a.m.settled[ref], noon))
	require.ErrorIs(rt, a.verb(single)(a.account, ref, a.m.settled[ref]+1, noon), store.ErrLedgerConflict)
}

func (a *ledgerActs) charge(rt *rapid.T) {
	ref := a.ref()
	err := a.s.Charge(a.account, ref, 1, noon)
	if !a.m.reserve(ref, 1, true) {
		require.ErrorAs(rt, err, new(*store.ErrInsufficientCredits))
		return
	}
	require.NoError(rt, err)
	a.m.settle(ref, 1)
}

func (a *ledgerActs) restart(rt *rapid.T) {
	require.NoError(rt, a.s.Close())
	a.s.Store = openOn(rt, a.s.fs).Store
	a.m.restart()
}

// TestLedgerUnderContention lets many calls fight for few credits: exactly as many are let through as are covered.
func TestLedgerUnderContention(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	ann := someone(t, s, "ann@example.com", 100)
	var wg sync.WaitGroup
	charged := make([]int, 8)
	for g := range charged {
		wg.Go(func() {
			for i := range 30 {
				ref := fmt.Sprint(g, " ", i)
				if s.ReserveSingle(ann, ref, 1, noon) == nil && s.Settle(ann, ref, 1, noon) == nil {
					charged[g]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range charged {
		sum += n
	}
	require.Equal(t, 100, sum)
	stands(t, s, ann, 0, 0)
}

// TestAccountsUnderContention is for the race detector: keys are made, used and revoked while others change the account.
func TestAccountsUnderContention(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	ann := someone(t, s, "ann@example.com", 100)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				secret, k, err := s.CreateKey(ann, "k", false, "test", noon)
				require.NoError(t, err)
				_, err = s.Authenticate(secret, noon)
				require.NoError(t, err)
				s.AllowSingle(ann, noon)
				require.NoError(t, s.RevokeKey(ann, k.ID, "test", noon))
				_, err = s.Authenticate(secret, noon)
				require.ErrorIs(t, err, store.ErrBadKey)
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			require.NoError(t, s.SetLimits(ann, store.Limits{SinglePerMinute: i + 1}, "test", noon))
			require.NoError(t, s.Suppress([]store.Suppression{{Kind: store.StopDomain, Name: fmt.Sprintf("d%d.example.com", i)}}, noon))
			require.NoError(t, s.WriteLastUsed())
			_, err := s.Keys("")
			require.NoError(t, err)
		}
	})
	wg.Wait()
	u, err := s.User(ann)
	require.NoError(t, err)
	require.Equal(t, 20, u.SinglePerMinute())
	_, ok := s.SuppressedDomain("d19.example.com", nil)
	require.True(t, ok)
}
