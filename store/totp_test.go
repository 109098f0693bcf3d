package store

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestTOTPOfRFC6238: the vectors of appendix B for SHA-1.
func TestTOTPOfRFC6238(t *testing.T) {
	for unix, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037",
		20000000000: "65353130",
	} {
		require.Equal(t, want, totpCode([]byte("12345678901234567890"), unix/totpStep, 8))
		require.Equal(t, want[2:], totpCode([]byte("12345678901234567890"), unix/totpStep, totpDigits),
			"fewer digits are its end")
	}
}

func TestCodeIsAcceptedOnceWithinOneStep(t *testing.T) {
	now := time.Unix(3_000_000_000, 0)
	step := now.Unix() / totpStep
	for off := int64(-3); off <= 3; off++ {
		f := newSecondFactor()
		code := totpCode(f.Secret, step+off, totpDigits)
		require.Equal(t, off >= -1 && off <= 1, f.useCode(code, now), off)
		require.False(t, f.useCode(code, now), "not twice")
	}
	f := newSecondFactor()
	require.True(t, f.useCode(totpCode(f.Secret, step, totpDigits), now))
	require.False(t, f.useCode(totpCode(f.Secret, step-1, totpDigits), now), "nor an older one after it")
	require.True(t, f.useCode(" "+totpCode(f.Secret, step+1, totpDigits)[:3]+" "+
		totpCode(f.Secret, step+1, totpDigits)[3:], now), "apps show it in two halves")
	for _, bad := range []string{"", "000", "0000000", strings.Repeat("9", 1000), "-", "------"} {
		require.False(t, f.useCode(bad, now), bad)
	}
}

// totpFixture is a store with an account whose TOTP is on.
type totpFixture struct {
	*testing.T
	fs       *vfs.MemFS
	s        *Store
	account  string
	secret   []byte
	recovery []string
	now      time.Time
}

var totpFrom = netip.MustParseAddr("198.51.100.1")

func newTOTPFixture(t *testing.T) *totpFixture {
	w := &totpFixture{T: t, fs: vfs.NewCrashableMem(), now: time.Unix(3_000_000_000, 0)}
	w.s = open(t, w.fs)
	t.Cleanup(func() { require.NoError(t, w.s.Close()) })
	HashCheaply(w.s)
	u, _, err := w.s.AddUser(t.Context(), NewUser{Email: "ann@example.com", Password: "long enough"}, "test", w.now)
	require.NoError(t, err)
	w.account = u.ID
	secret, err := w.s.NewTOTP(w.account)
	require.NoError(t, err)
	w.secret, err = base32Text.DecodeString(secret)
	require.NoError(t, err)
	w.recovery, err = w.s.TOTPOn(w.account, w.code(), "", "test", w.now)
	require.NoError(t, err)
	w.now = w.now.Add(totpStep * time.Second)
	return w
}

func (w *totpFixture) code() string {
	return totpCode(w.secret, w.now.Unix()/totpStep, totpDigits)
}

// wrongCode is a code that is not valid now.
func (w *totpFixture) wrongCode() string {
	digits := []byte(w.code())
	for i := range digits {
		digits[i] = '0' + (digits[i]-'0'+5)%10
	}
	return string(digits)
}

func (w *totpFixture) logIn(code string, from netip.Addr) error {
	_, err := w.s.LogIn(w.Context(), Login{Email: "ann@example.com", Password: "long enough", Code: code, From: from},
		w.now)
	return err
}

func TestCodeIsRequestedOnlyAfterTheRightPassword(t *testing.T) {
	w := newTOTPFixture(t)
	_, err := w.s.LogIn(t.Context(), Login{Email: "ann@example.com", Password: "a wrong password", Code: w.code()},
		w.now)
	require.ErrorIs(t, err, ErrBadCredentials)
	require.ErrorIs(t, w.logIn("", totpFrom), ErrCodeNeeded)
	require.NoError(t, w.logIn(w.code(), totpFrom), "a wrong password uses no code up")
	require.ErrorIs(t, w.logIn(w.code(), totpFrom), ErrBadCode)
}

func TestUsedCodeStaysUsedAfterPowerCut(t *testing.T) {
	w := newTOTPFixture(t)
	require.NoError(t, w.logIn(w.code(), totpFrom))
	require.NoError(t, w.logIn(w.recovery[0], totpFrom))
	after := open(t, w.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0}))
	defer after.Close()
	HashCheaply(after)
	for _, used := range []string{w.code(), w.recovery[0]} {
		_, err := after.LogIn(t.Context(), Login{Email: "ann@example.com", Password: "long enough", Code: used}, w.now)
		require.ErrorIs(t, err, ErrBadCode)
	}
}

func TestRecoveryCodesWorkOnceAndAreStoredHashed(t *testing.T) {
	w := newTOTPFixture(t)
	require.Len(t, w.recovery, 10)
	rec, err := readUser(w.s.db, w.account)
	require.NoError(t, err)
	stored, err := json.Marshal(rec)
	require.NoError(t, err)
	for i, code := range w.recovery {
		require.Regexp(t, `^([a-z2-7]{4}-){3}[a-z2-7]{4}$`, code)
		require.NotContains(t, string(stored), normalizeCode(code))
		require.NotContains(t, w.recovery[:i], code)
		w.now = w.now.Add(time.Second)
		typed := strings.ToUpper(strings.ReplaceAll(code, "-", " "))
		require.NoError(t, w.logIn(typed, totpFrom))
		require.ErrorIs(t, w.logIn(code, totpFrom), ErrBadCode)
		left, err := w.s.RecoveryLeft(w.account)
		require.NoError(t, err)
		require.Equal(t, 9-i, left)
	}
	events, err := w.s.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"recovery code", "0 left", w.account, totpFrom.String()},
		[]string{events[0].Action, events[0].Note, events[0].By, events[0].From})
	require.NoError(t, w.logIn(w.code(), totpFrom), "the app still works")
}

// TestWrongCodesLockOutAllNetworks: the sender of a code knows the password, and may have the networks of a botnet.
func TestWrongCodesLockOutAllNetworks(t *testing.T) {
	w := newTOTPFixture(t)
	var locked *ErrLockedOut
	for i := range byte(5) {
		require.ErrorIs(t, w.logIn(w.wrongCode(), netip.AddrFrom4([4]byte{203, 0, i, 1})), ErrBadCode)
	}
	require.ErrorAs(t, w.logIn(w.code(), totpFrom), &locked)
	_, err := w.s.LogIn(t.Context(), Login{Email: "ann@example.com", Password: "a wrong password",
		From: netip.AddrFrom4([4]byte{192, 0, 2, 1})}, w.now)
	require.ErrorIs(t, err, ErrBadCredentials, "which a stranger cannot tell")
	w.now = locked.Until
	require.NoError(t, w.logIn(w.code(), totpFrom))

	for range 4 {
		require.ErrorIs(t, w.logIn(w.wrongCode(), totpFrom), ErrBadCode, "a right code forgets the wrong ones")
	}
	require.ErrorIs(t, w.logIn("", totpFrom), ErrCodeNeeded)
	require.ErrorAs(t, w.logIn(w.code(), totpFrom), &locked, "an attempt without a code forgives none")
	require.NoError(t, w.s.SetPassword(t.Context(), w.account, NewPassword{Password: "long enough", By: "test"}, w.now))
	w.now = w.now.Add(totpStep * time.Second)
	require.NoError(t, w.logIn(w.code(), totpFrom), "a new password lifts the lock-out")
}

// TestRecoveryCodePassesTheLockoutOfCodes: wrong codes of a stranger with the password do not shut the owner out.
func TestRecoveryCodePassesTheLockoutOfCodes(t *testing.T) {
	w := newTOTPFixture(t)
	var locked *ErrLockedOut
	for i := range byte(5) {
		require.ErrorIs(t, w.logIn(w.wrongCode(), netip.AddrFrom4([4]byte{203, 0, i, 1})), ErrBadCode)
	}
	require.ErrorAs(t, w.logIn(w.code(), totpFrom), &locked)
	require.ErrorIs(t, w.logIn("aaaa-aaaa-aaaa-aaaa", totpFrom), ErrBadCode)
	require.NoError(t, w.logIn(w.recovery[0], totpFrom))
	require.NoError(t, w.logIn(w.code(), totpFrom), "and lifts the lock-out")
}

func TestTOTPTurnsOnAndOff(t *testing.T) {
	w := newTOTPFixture(t)
	_, err := w.s.NewTOTP(w.account)
	require.ErrorIs(t, err, ErrTOTPOn, "no session can put another app in the place of the one that is used")
	_, err = w.s.TOTPOn(w.account, w.code(), "", "test", w.now)
	require.ErrorIs(t, err, ErrTOTPOn)
	require.NoError(t, w.s.TOTPOff(w.account, "", "test", w.now))
	require.NoError(t, w.logIn("", totpFrom))
	require.NoError(t, w.logIn("any code", totpFrom), "it is not read")
	rec, err := readUser(w.s.db, w.account)
	require.NoError(t, err)
	require.Nil(t, rec.Second, "secret and recovery codes are forgotten")

	_, err = w.s.TOTPOn(w.account, w.code(), "", "test", w.now)
	require.ErrorIs(t, err, ErrNoTOTP)
	old, err := w.s.NewTOTP(w.account)
	require.NoError(t, err)
	secret, err := w.s.NewTOTP(w.account)
	require.NoError(t, err)
	require.NotEqual(t, old, secret)
	w.secret, err = base32Text.DecodeString(secret)
	require.NoError(t, err)
	_, err = w.s.TOTPOn(w.account, w.wrongCode(), "", "test", w.now)
	require.ErrorIs(t, err, ErrBadCode)
	require.NoError(t, w.logIn("", totpFrom), "a secret that was never confirmed locks no account")
	recovery, err := w.s.TOTPOn(w.account, w.code(), "", "test", w.now)
	require.NoError(t, err)
	for _, gone := range w.recovery {
		require.NotContains(t, recovery, gone)
	}
	require.ErrorIs(t, w.logIn("", totpFrom), ErrCodeNeeded)
}

func TestConcurrentCodeIsAcceptedOnce(t *testing.T) {
	w := newTOTPFixture(t)
	code, taken := w.code(), make(chan error, 4)
	for range cap(taken) {
		go func() { taken <- w.logIn(code, totpFrom) }()
	}
	good := 0
	for range cap(taken) {
		if err := <-taken; err == nil {
			good++
		} else {
			require.ErrorIs(t, err, ErrBadCode)
		}
	}
	require.Equal(t, 1, good)
}
