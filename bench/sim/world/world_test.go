package world

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/bench/sim/persona"
)

func TestWorldIsTheSameForTheSameSeed(t *testing.T) {
	a, b := New(Config{Seed: 7}), New(Config{Seed: 7})
	require.Equal(t, len(a.domains), len(b.domains))
	require.Equal(t, a.rowDomains, b.rowDomains)
	require.Equal(t, a.names, b.names)
	for i := range a.domains {
		require.Equal(t, a.domains[i].Name, b.domains[i].Name)
		require.Equal(t, a.domains[i].key, b.domains[i].key)
	}
	require.NotEqual(t, a.domains[0].key, New(Config{Seed: 8}).domains[0].key)
}

func TestEveryPersonaHasDomainsAndRows(t *testing.T) {
	w := New(Config{})
	rows := map[*persona.Persona]int{}
	for _, at := range w.rowDomains {
		rows[w.domains[at].Persona]++
	}
	slow := 0
	for _, p := range w.Personas() {
		require.Positive(t, rows[p], p.Name)
		if p.Slow {
			slow += rows[p]
		}
	}
	require.Less(t, slow, rowsInTable/1000, "long timeouts must be rare")
}

func TestDomainNamesAreUnique(t *testing.T) {
	w := New(Config{})
	seen := map[string]bool{}
	for _, d := range w.Domains() {
		require.False(t, seen[d.Name], d.Name)
		seen[d.Name] = true
	}
}

func TestHostsAreInTheNetwork(t *testing.T) {
	w := New(Config{Seed: 3, Network: netip.MustParsePrefix("127.64.0.0/16")})
	for _, h := range w.Hosts() {
		for _, addr := range h.Addrs {
			inside := w.config.Network.Contains(addr) || addr == netip.IPv6Loopback()
			require.True(t, inside, "%s %s", h.Name, addr)
		}
	}
	require.Less(t, len(w.Hosts()), 4096)
}

// Each MX host of a domain must lead to a machine of the domain's persona,
// since hosts refuse to relay for any other.
func TestDNSAndHostsAgree(t *testing.T) {
	w := New(Config{})
	for _, d := range w.Domains() {
		for _, mx := range d.MX {
			for _, addr := range w.resolve(mx.Host) {
				h, known := w.HostAt(addr)
				if d.Persona.Oddity == persona.Unroutable {
					require.False(t, known, mx.Host)
					continue
				}
				require.True(t, known, mx.Host)
				assert.Equal(t, d.Persona.Name, h.Persona.Name, mx.Host)
				assert.Equal(t, d.Cluster, h.Cluster, mx.Host)
			}
		}
	}
}

// resolve follows at most one alias.
func (w *World) resolve(name string) []netip.Addr {
	r := w.names[name]
	if r.Alias != "" {
		r = w.names[r.Alias]
	}
	return r.Addrs
}

func TestMailbox(t *testing.T) {
	w := New(Config{Seed: 1})
	gmail, _ := w.Domain("gmail.com")
	n := func(m persona.Mailbox) string {
		h := gmail.key
		for _, c := range []byte("annanovak") {
			h = hashByte(h, c)
		}
		return itoa(numberFor(h, m, 5))
	}
	present := n(persona.Present)
	for _, tc := range []struct {
		domain, local string
		want          persona.Mailbox
	}{
		{"gmail.com", "annanovak" + present, persona.Present},
		{"gmail.com", "Anna.Novak" + present, persona.Present},
		{"GMAIL.com", "a.n.n.anovak" + present + "+shop", persona.Present},
		{"googlemail.com", "annanovak" + present, persona.Present},
		{"gmail.com", "anna_novak" + present, persona.Absent},
		{"gmail.com", "annanovak" + n(persona.Full), persona.Full},
		{"gmail.com", "annanovak" + n(persona.Disabled), persona.Disabled},
		{"gmail.com", "annanovak" + n(persona.Moved), persona.Moved},
		{"gmail.com", "annanovak" + n(persona.Absent), persona.Absent},
		{"gmail.com", "annanovak", persona.Absent},
		{"gmail.com", "annanovak" + present + "0", persona.Absent},
		{"gmail.com", "info", persona.Absent},
		{"no-such.example", "annanovak" + present, persona.Absent},
		{"gmail.com", "", persona.Absent},
	} {
		require.Equal(t, tc.want, w.Mailbox(tc.domain, tc.local), "%s@%s", tc.local, tc.domain)
	}
}

// A decoy must find no mailbox, or honest servers would look like catch-alls.
func TestRandomNamesAreAbsent(t *testing.T) {
	w := New(Config{})
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		d := w.domains[rapid.IntRange(0, len(w.domains)-1).Draw(t, "domain")]
		local := rapid.StringMatching(`[a-z]{3,8}[._]?[a-z]{0,8}[0-9]{0,6}`).Draw(t, "local")
		if !isRole([]byte(local)) && w.Mailbox(d.Name, local) != persona.Absent {
			found++
		}
	})
	require.LessOrEqual(t, found, 1)
}

func TestMailboxDoesNotAllocate(t *testing.T) {
	w := New(Config{})
	d := w.DomainOf([]byte("gmail.com"))
	local := []byte("Anna.Novak12345+tag")
	require.Zero(t, testing.AllocsPerRun(100, func() { w.MailboxOf(d, local); w.DomainOf([]byte("gmail.com")) }))
}

func itoa(n int) string {
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

// TestThrottlersAreOptional: the default world has none of them, and does not change with the option off.
func TestThrottlersAreOptional(t *testing.T) {
	with, without := New(Config{Throttlers: true}), New(Config{})
	if len(without.Addresses("silent-past", 1)) != 0 || len(with.Addresses("silent-past", 50)) != 50 {
		t.Error("punishers where none were asked for, or none where they were")
	}
	if fmt.Sprint(with.Addresses("strict", 9)) != fmt.Sprint(without.Addresses("strict", 9)) {
		t.Error("people moved")
	}
}

// TestHostileReceiversAreOptional: the default world has none of them, and no other domain or row changes with them.
func TestHostileReceiversAreOptional(t *testing.T) {
	with, without := New(Config{Seed: 7, Hostile: true}), New(Config{Seed: 7})
	if !slices.Equal(with.rowDomains, without.rowDomains) {
		t.Error("rows moved")
	}
	for i, d := range without.domains {
		if with.domains[i].Name != d.Name || with.domains[i].key != d.key || with.domains[i].Cluster != d.Cluster {
			t.Fatalf("%s changed", d.Name)
		}
	}
	if n := len(with.hostile); n < 100 || len(without.hostile) != 0 {
		t.Errorf("%d hostile domains, and %d without the option", n, len(without.hostile))
	}
}

func TestRouteIsNamedByItsHosts(t *testing.T) {
	d := &Domain{Name: "d.example", Persona: &persona.Persona{Name: "test"},
		MX: []MX{{10, "mx2.example"}, {20, "mx.example"}}}
	google, mimecast, libero := &persona.Persona{Provider: "google"}, &persona.Persona{Provider: "mimecast"},
		&persona.Persona{Provider: "libero"}
	for _, tt := range []struct {
		domain Domain
		want   string
	}{
		{*d, "mx.example,mx2.example"},
		{Domain{Name: "own.example", Persona: d.Persona}, "own.example"},
		{Domain{Name: "g.example", Persona: google, MX: d.MX}, ""},
		{Domain{Name: "m.example", Persona: mimecast, MX: d.MX}, "m.example"},
		{Domain{Name: "l.example", Persona: libero, MX: d.MX}, "libero"},
	} {
		if got := routeKey(&tt.domain); got != tt.want {
			t.Errorf("%s: route %q, want %q", tt.domain.Name, got, tt.want)
		}
	}
}
