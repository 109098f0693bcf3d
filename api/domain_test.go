package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

func TestDomainSaysWhatIsKnown(t *testing.T) {
	w := newTestServer(t, nil)
	before := w.credits()
	for name, want := range map[string]map[string]any{
		"shop.test": {"domain": "shop.test", "dns": "mx", "domain_exists": true,
			"mx_records":    []any{"mx1.shop.test", "mx2.shop.test"},
			"smtp_provider": "other", "accepts_all": false, "is_catch_all": false, "is_disposable": false,
			"is_free_email": false, "probing": true},
		"FREE.Test": {"domain": "free.test", "is_free_email": true, "is_catch_all": nil, "probing": true},
		"nx.test": {"dns": "no_domain", "domain_exists": false, "mx_records": []any{}, "smtp_provider": "",
			"probing": false},
		"null.test":          {"dns": "null_mx", "domain_exists": true, "probing": false},
		"b%C3%BCcher.test":   {"domain": "xn--bcher-kva.test"},
		"xn--bcher-kva.test": {"domain": "xn--bcher-kva.test", "dns": "mx"},
	} {
		r := w.get("/v1/domains/"+name, w.key)
		require.Equal(t, 200, r.status, "%s: %s", name, r.body)
		got := r.json(t)
		for member, value := range want {
			require.Equal(t, value, got[member], "%s of %s", member, name)
		}
	}
	require.NoError(t, w.store.Suppress([]store.Suppression{{Kind: store.SuppressionMX, Name: "mx1.shop.test",
		By: "test"}}, w.server.now()))
	require.Equal(t, false, w.get("/v1/domains/shop.test", w.key).json(t)["probing"],
		"its receiver asked to be left alone")
	require.Equal(t, before, w.credits())
	for _, bad := range []string{"-", "a@b.c", "shop..test", "[127.0.0.1]", "%20"} {
		require.Equal(t, 422, w.get("/v1/domains/"+bad, w.key).status, bad)
	}
}
