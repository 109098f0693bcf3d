package coordinator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/engine"
)

// cachedDNS has the answers of the DNS since an hour ago.
type cachedDNS struct {
	*fakeDNS
	since time.Time
}

func (d cachedDNS) Route(ctx context.Context, domain string) engine.Route {
	r := d.fakeDNS.Route(ctx, domain)
	if domain == "accept.example" {
		r = d.table.NewRoute([]engine.MX{{Preference: 10, Host: "mx-eu.mail.am0.yahoodns.net"}})
	}
	r.FoundAt = d.since
	return r
}

func (d cachedDNS) CachedRoute(domain string) (engine.Route, bool) {
	return d.Route(context.Background(), domain), true
}

func newCachedDNS(t *testing.T) (w *testEnv, since time.Time) {
	since = time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	return newTestEnv(t, vfs.NewMem(), func(w *testEnv, c *Config) {
		c.Resolver = cachedDNS{w.dns, since}
		c.Suppress = func(a engine.Address) bool { return strings.HasPrefix(a.Local(), "never") }
	}), since
}

// A verdict that follows from the DNS alone is as old as the answer of the DNS, and is from a cache if that is older
// than the call.
func TestCachedDNSAgesSingleVerdicts(t *testing.T) {
	w, since := newCachedDNS(t)
	defer w.close(t)
	for email, reason := range map[string]engine.Reason{
		"a@nx.example": engine.ReasonDomainNotFound, "a@null.example": engine.ReasonNullMX,
		"a@fail.example":   engine.ReasonDNSError,
		"a@accept.example": engine.ReasonAcceptAllProvider,
	} {
		a, err := w.c.Single(t.Context(), Request{Email: email})
		require.NoError(t, err)
		require.Equal(t, reason, a.Verdict.Reason, email)
		require.True(t, a.Verdict.FromCache, email)
		require.Equal(t, since, a.Verdict.VerifiedAt, email)
	}
	a, err := w.c.Single(t.Context(), Request{Email: "no address"})
	require.NoError(t, err)
	require.False(t, a.Verdict.FromCache, "syntax is checked anew")
	require.WithinDuration(t, time.Now(), a.Verdict.VerifiedAt, time.Minute)
}

// The same holds in lists, where a verdict is from a cache if it is older than the job.
func TestCachedDNSAgesVerdictsOfLists(t *testing.T) {
	w, since := newCachedDNS(t)
	w.run()
	j := w.accept(t, "email\na@nx.example\na@null.example\na@accept.example\nnever@nx.example\nnever@shop.example\n")
	w.finish(t, j.ID)
	rows := strings.Split(w.results(t, j.ID, results.Filter{Form: results.Form{Format: results.CSV,
		Compress: results.None}}), "\n")
	for _, row := range rows[1:4] {
		require.True(t, strings.HasSuffix(row, ",true,"+since.Format(time.RFC3339)), row)
	}
	require.Contains(t, rows[4], "UNKNOWN,50,smtp_not_checked,true,false,false,",
		"not looked up, and known not to exist")
	require.Contains(t, rows[5], "UNKNOWN,50,smtp_not_checked,true,true,false,",
		"not looked up, and nothing says that it does not exist")
	require.NoError(t, w.close(t))
}

// domain_exists of a suppressed address is what the DNS said lately, else true.
func TestDomainOfASuppressedAddress(t *testing.T) {
	w, _ := newCachedDNS(t)
	defer w.close(t)
	for email, exists := range map[string]bool{"never@nx.example": false, "never@shop.example": true,
		"never@fail.example": true} {
		a, err := w.c.Single(t.Context(), Request{Email: email})
		require.NoError(t, err)
		require.Equal(t, engine.ReasonSMTPNotChecked, a.Verdict.Reason)
		require.Equal(t, exists, a.Verdict.DomainExists(), email)
	}
}
