package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/internal/detector"
	"probity/store"
)

// modelLedger is a simple model of the ledger: free credits, what each piece of work has reserved, and the
// settlements.
type modelLedger struct {
	free, reserved, bySingles int64            // reserved for jobs, reserved by singles
	open, settled             map[string]int64 // work to credits
	single                    map[string]bool
}

func newModelLedger(free int64) *modelLedger {
	return &modelLedger{free: free, open: map[string]int64{}, settled: map[string]int64{}, single: map[string]bool{}}
}

func (m *modelLedger) reserve(ref string, n int64, single bool) (covered bool) {
	if n > m.free {
		return false
	}
	m.free -= n
	*m.reservedOf(single) += n
	m.open[ref], m.single[ref] = n, single
	return true
}

func (m *modelLedger) reservedOf(single bool) *int64 {
	if single {
		return &m.bySingles
	}
	return &m.reserved
}

func (m *modelLedger) settle(ref string, used int64) {
	n := m.open[ref]
	m.free += n - used
	*m.reservedOf(m.single[ref]) -= n
	m.settled[ref] = used
	delete(m.open, ref)
}

func (m *modelLedger) restart() {
	for ref := range m.open {
		if m.single[ref] {
			m.settle(ref, 0)
		}
	}
}

func (m *modelLedger) pick(rt *rapid.T, from map[string]int64, single bool) (string, bool) {
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

// TestLedgerInvariants drives a store and the model with the same actions, repeated actions and restarts, and compares.
func TestLedgerInvariants(t *testing.T) {
	detector.SpareByDay(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := openOn(rt, vfs.NewMem())
		defer func() { require.NoError(rt, s.Close()) }()
		u, _, err := s.AddUser(t.Context(), store.NewUser{Email: "ann@example.com", Password: "long enough",
			Credits: 20}, "test", noon)
		require.NoError(rt, err)
		events := &ledgerActions{s: s, account: u.ID, m: newModelLedger(20)}
		rt.Repeat(map[string]func(*rapid.T){
			"grant": events.grant, "reserve": events.reserve, "settle": events.settle, "charge": events.charge,
			"settle again": events.settleAgain, "settle together": events.settleTogether, "restart": events.restart,
			"": func(rt *rapid.T) {
				requireCreditsOf(rt, s, u.ID, events.m.free+events.m.bySingles, events.m.reserved, events.m.bySingles)
			},
		})
	})
}

type ledgerActions struct {
	s       *storeAdapter
	account string
	m       *modelLedger
	lastRef int
}

func (a *ledgerActions) ref() string { a.lastRef++; return fmt.Sprint("w", a.lastRef) }

func (a *ledgerActions) grant(rt *rapid.T) {
	n := int64(rapid.IntRange(-10, 10).Draw(rt, "credits"))
	_, err := a.s.GrantCredits(a.account, store.CreditGrant{ID: a.ref(), Credits: n, By: "test"}, noon)
	if a.m.free+n < 0 {
		require.ErrorAs(rt, err, new(*store.ErrInsufficientCredits))
		return
	}
	require.NoError(rt, err)
	a.m.free += n
}

func (a *ledgerActions) reserve(rt *rapid.T) {
	single, n := rapid.Bool().Draw(rt, "single"), int64(rapid.IntRange(1, 12).Draw(rt, "credits"))
	ref, verb := a.ref(), func(account, job string, n int64) error { return a.s.ReserveJob(account, job, n, noon) }
	if single {
		verb = a.s.ReserveSingle
	}
	covered := a.m.reserve(ref, n, single)
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		err := verb(a.account, ref, n)
		var short *store.ErrInsufficientCredits
		require.Equal(rt, !covered, errors.As(err, &short))
		if covered {
			require.NoError(rt, err)
		} else {
			require.Equal(rt, store.ErrInsufficientCredits{Balance: a.m.free, Needed: n}, *short)
		}
	}
}

func (a *ledgerActions) settle(rt *rapid.T) {
	single := rapid.Bool().Draw(rt, "single")
	ref, ok := a.m.pick(rt, a.m.open, single)
	if !ok {
		return
	}
	used := int64(rapid.IntRange(0, int(a.m.open[ref])+1).Draw(rt, "used"))
	err := a.settleFunc(single)(a.account, ref, used, noon)
	if used > a.m.open[ref] {
		require.ErrorIs(rt, err, store.ErrOverspent)
		return
	}
	require.NoError(rt, err)
	a.m.settle(ref, used)
}

func (a *ledgerActions) settleFunc(single bool) func(account, ref string, used int64, now time.Time) error {
	if single {
		return a.s.Settle
	}
	return a.s.SettleJob
}

func (a *ledgerActions) settleAgain(rt *rapid.T) {
	single := rapid.Bool().Draw(rt, "single")
	ref, ok := a.m.pick(rt, a.m.settled, single)
	if !ok {
		return
	}
	require.NoError(rt, a.settleFunc(single)(a.account, ref, a.m.settled[ref], noon))
	require.ErrorIs(rt, a.settleFunc(single)(a.account, ref, a.m.settled[ref]+1, noon), store.ErrLedgerConflict)
}

func (a *ledgerActions) charge(rt *rapid.T) {
	ref := a.ref()
	err := a.s.Charge(a.account, ref, 1, noon)
	if !a.m.reserve(ref, 1, true) {
		require.ErrorAs(rt, err, new(*store.ErrInsufficientCredits))
		return
	}
	require.NoError(rt, err)
	a.m.settle(ref, 1)
}

// settleTogether reserves and settles single calls concurrently, so that they may share commits.
func (a *ledgerActions) settleTogether(rt *rapid.T) {
	n := min(rapid.IntRange(1, 5).Draw(rt, "singles"), int(a.m.free))
	var all sync.WaitGroup
	for range n {
		ref, used := a.s.NewRequest(), int64(rapid.IntRange(0, 1).Draw(rt, "used"))
		require.True(rt, a.m.reserve(ref, 1, true))
		require.NoError(rt, a.s.ReserveSingle(a.account, ref, 1))
		a.m.settle(ref, used)
		all.Go(func() { require.NoError(rt, a.s.Settle(a.account, ref, used, noon)) })
	}
	all.Wait()
}

func (a *ledgerActions) restart(rt *rapid.T) {
	require.NoError(rt, a.s.Close())
	a.s.Store = openOn(rt, a.s.fs).Store
	a.m.restart()
}

// TestLedgerUnderContention runs single calls, jobs and grants of two accounts for few credits, with concurrent
// readers: exactly as many succeed as are covered, and every ledger adds up at any moment.
func TestLedgerUnderContention(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	customers := []string{newCustomer(t, s, "ann@example.com", 100), newCustomer(t, s, "bob@example.com", 100)}
	var wg sync.WaitGroup
	var charged [2]atomic.Int64
	for g := range 16 {
		customer := customers[g%2]
		wg.Go(func() {
			for i := range 30 {
				ref, name := fmt.Sprint(g, " ", i), s.NewRequest()
				if s.ReserveSingle(customer, name, 2) == nil && s.Settle(customer, name, int64(i%3), noon) == nil {
					charged[g%2].Add(int64(i % 3))
				}
				if s.ReserveJob(customer, ref, 3, noon) == nil && s.SettleJob(customer, ref, 1, noon) == nil {
					charged[g%2].Add(1)
				}
				if _, err := s.GrantCredits(customer, store.CreditGrant{ID: ref, Credits: -1, By: "test"},
					noon); err == nil {
					charged[g%2].Add(1)
				}
				require.NoError(t, s.CheckLedger(customer))
			}
		})
	}
	wg.Wait()
	for i, customer := range customers {
		for n := 0; s.Charge(customer, fmt.Sprint("rest ", n), 1, noon) == nil; n++ {
			charged[i].Add(1)
		}
		require.EqualValues(t, 100, charged[i].Load())
		requireCredits(t, s, customer, 0, 0)
	}
}

// TestAccountsUnderContention is for the race detector: keys are made, used and revoked while others change the
// account.
func TestAccountsUnderContention(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	ann := newCustomer(t, s, "ann@example.com", 100)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				secret, k, err := s.CreateKey(ann, store.NewKey{Name: "k"}, "test", noon)
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
			require.NoError(t, s.Suppress([]store.Suppression{{Kind: store.SuppressionDomain,
				Name: fmt.Sprintf("d%d.example.com", i)}}, noon))
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
