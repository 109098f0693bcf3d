package store_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store"
)

// accountStore is the interface of the account methods. It is declared here because the program itself has one
// implementation and needs no interface. Parts of another commit appear as methods of their own.
type accountStore interface {
	AddUser(ctx context.Context, n store.NewUser, by string, now time.Time, first ...store.Part) (store.User, string,
		error)
	FirstAdmin(ctx context.Context, email, password string, credits int64, now time.Time) (store.User, bool, error)
	CheckPassword(ctx context.Context, l store.Login, now time.Time) (store.User, error)
	SetPassword(ctx context.Context, account string, p store.NewPassword, now time.Time, allowed ...store.Part) error
	DisableUser(account, by string, now time.Time) error
	EnableUser(account, by string, now time.Time) error
	SetLimits(account string, l store.Limits, by string, now time.Time) error
	User(account string) (store.User, error)
	UserByEmail(email string) (store.User, error)
	Users() []store.User

	CreateKey(account string, n store.NewKey, by string, now time.Time) (string, store.APIKey, error)
	RevokeKey(account, id, by string, now time.Time) error
	Keys(account string) ([]store.APIKey, error)
	Authenticate(secret string, now time.Time) (store.Identity, error)
	WriteLastUsed() error

	GrantCredits(account string, g store.CreditGrant, now time.Time) (store.Credits, error)
	Credits(account string) (store.Credits, error)
	Ledger(account string, before uint64, limit int) ([]store.Entry, error)
	CheckLedger(account string) error
	ReservedBySingles(account string) int64
	NewRequest() string
	ReserveSingle(account, request string, credits int64) error
	Settle(account, request string, used int64, now time.Time) error
	Charge(account, request string, used int64, now time.Time) error
	SettleAndKeep(account, request string, used int64, r store.Request, a store.Answer, now time.Time) error
	ReserveJob(account, job string, credits int64, now time.Time) error
	SettleJob(account, job string, used int64, now time.Time) error

	AllowSingle(account string, now time.Time) store.Decision
	UploadsLeft(account string, now time.Time) (store.Decision, error)
	CountOneUpload(account string, now time.Time) (store.Decision, error)
	AllowPublic(client netip.Addr, perDay int, now time.Time) (store.Decision, error)
	SweepWindows(now time.Time) (int, error)

	BeginRequest(r store.Request, now time.Time) (store.Answer, bool, error)
	EndRequest(r store.Request)
	SweepAnswers(now time.Time) (int, error)
	EraseAnswers(match func(body []byte) bool) (int, error)

	CreateSession(account, agent string, ttl time.Duration, now time.Time) (string, store.Session, error)
	Session(token string, now time.Time) (store.Session, store.User, error)
	Sessions(account string, now time.Time) ([]store.Session, error)
	EndSession(account, id string) error
	EndSessions(account, keep string) error
	SweepSessions(now time.Time) (int, error)

	Suppress(suppressions []store.Suppression, now time.Time) error
	Unsuppress(kind store.SuppressionKind, name, by string, now time.Time) error
	Suppressions() ([]store.Suppression, error)
	SuppressedDomain(domain string, hosts []string) (store.Suppression, bool)
	SuppressedAddress(folded string) (store.Suppression, bool)

	ScheduleCallback(account, job string, now time.Time) error
	DropCallback(account, job string) error
	Callback(job string) (store.Callback, error)
	DueCallbacks(now time.Time, from store.DueCursor, limit int) ([]store.Callback, store.DueCursor, error)
	RecordAttempt(job string, a store.Attempt, o store.Outcome, now time.Time) (store.Callback, error)
	ResendCallback(job string, now time.Time) (store.Callback, error)
	CallbackLog(job string) ([]store.Attempt, error)

	Secret(name string) ([]byte, error)
	NewCallbackSecret(account, by string, now time.Time) (string, error)
	DropCallbackSecrets(account, by string, now time.Time) error
	Signing(account string, now time.Time) (store.Signing, error)
	Audit(a store.AuditEvent) error
	AuditEvents(cursor string, limit int) ([]store.AuditEvent, error)
	RecordBackup(by string, at time.Time) error
	LastBackup() (time.Time, error)

	// Reopen restarts the program: the result has only what was stored.
	Reopen(t *testing.T) accountStore
}

// Conformance tests an implementation of the account methods. open returns a new, empty one.
func Conformance(t *testing.T, open func(t *testing.T) accountStore) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s accountStore)
	}{
		{"users", conformUsers},
		{"the first admin", conformFirstAdmin},
		{"the last admin", conformLastAdmin},
		{"lock-out", conformLockout},
		{"keys", conformKeys},
		{"ledger", conformLedger},
		{"settling again", conformSettlingAgain},
		{"names of requests", conformNames},
		{"singles of a dead process", conformDeadSingles},
		{"account limits", conformAccountLimits},
		{"public limits", conformPublicLimits},
		{"idempotency", conformIdempotency},
		{"sessions", conformSessions},
		{"suppress list", conformSuppress},
		{"callbacks", conformCallbacks},
		{"settings", conformSettings},
		{"audit log", conformAudit},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func TestConformance(t *testing.T) {
	Conformance(t, func(t *testing.T) accountStore { return openMem(t, vfs.NewMem()) })
}

// storeAdapter is our store, with its parts as methods.
type storeAdapter struct {
	*store.Store
	fs vfs.FS
}

func (e *storeAdapter) CountOneUpload(account string, now time.Time) (d store.Decision, err error) {
	err = e.Commit(account, e.CountUpload(account, now, &d))
	return d, err
}

// openOn opens a store that hashes passwords cheaply. The caller closes it.
func openOn(t require.TestingT, fs vfs.FS) *storeAdapter {
	s, err := store.Open(fs, "state")
	require.NoError(t, err)
	store.HashCheaply(s)
	return &storeAdapter{s, fs}
}

func openMem(t *testing.T, fs vfs.FS) *storeAdapter {
	t.Helper()
	e := openOn(t, fs)
	t.Cleanup(func() {
		if e.Store != nil {
			require.NoError(t, e.Close())
		}
	})
	return e
}

func (e *storeAdapter) Reopen(t *testing.T) accountStore {
	t.Helper()
	require.NoError(t, e.Close())
	e.Store = nil
	return openMem(t, e.fs)
}

func (e *storeAdapter) Settle(account, request string, used int64, now time.Time) error {
	return e.SettleSingle(account, request, used, now)
}

func (e *storeAdapter) Charge(account, request string, used int64, now time.Time) error {
	return e.chargeSingle(account, request, used, now, func(*pebble.Batch) error { return nil })
}

// chargeSingle makes a single call that needs no work: its charge is in the commit of the other parts.
func (e *storeAdapter) chargeSingle(account, request string, used int64, now time.Time, with store.Part) error {
	if err := e.ReserveSingle(account, request, used); err != nil {
		return err
	}
	return e.SettleSingle(account, request, used, now, with)
}

func (e *storeAdapter) SettleAndKeep(account, request string, used int64, r store.Request, a store.Answer,
	now time.Time) error {
	return e.SettleSingle(account, request, used, now, store.KeepAnswer(r, a, now))
}

func (e *storeAdapter) ReserveJob(account, job string, credits int64, now time.Time) error {
	return e.Commit(account, store.ReserveJob(account, job, credits, now))
}

func (e *storeAdapter) SettleJob(account, job string, used int64, now time.Time) error {
	return e.Commit(account, store.SettleJob(account, job, used, now))
}

func (e *storeAdapter) ScheduleCallback(account, job string, now time.Time) error {
	return e.Commit(account, store.ScheduleCallback(account, job, now))
}

func (e *storeAdapter) DropCallback(account, job string) error {
	return e.Commit(account, store.DropCallback(job))
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// newCustomer is a customer with credits.
func newCustomer(t *testing.T, s accountStore, email string, credits int64) string {
	t.Helper()
	u, _, err := s.AddUser(t.Context(), store.NewUser{Email: email, Password: "long enough", Credits: credits}, "test",
		noon)
	require.NoError(t, err)
	return u.ID
}
