package world

import (
	"bytes"
	"encoding/csv"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
)

func makeList(t testing.TB, w *World, rows int, seed uint64) []byte {
	var b bytes.Buffer
	require.NoError(t, WriteList(&b, w, rows, seed))
	return b.Bytes()
}

func TestListIsTheSameForTheSameSeed(t *testing.T) {
	w := New(Config{Seed: 1})
	require.True(t, bytes.Equal(makeList(t, w, 3000, 5), makeList(t, New(Config{Seed: 1}), 3000, 5)))
	require.False(t, bytes.Equal(makeList(t, w, 3000, 5), makeList(t, w, 3000, 6)))
}

// The standard library's reader must accept the form.
func TestListIsCSV(t *testing.T) {
	w := New(Config{})
	r := csv.NewReader(bytes.NewReader(makeList(t, w, 5000, 1)))
	all, err := r.ReadAll()
	require.NoError(t, err)
	require.Len(t, all, 5001)
	require.Equal(t, ListHeader, strings.Join(all[0], ","))
	for i, row := range all[1:] {
		require.Equal(t, itoa(i+1), row[0])
	}
}

// The mix that the list promises, within sampling error.
func TestListMix(t *testing.T) {
	const rows = 50_000
	w := New(Config{Seed: 2})
	all, err := csv.NewReader(bytes.NewReader(makeList(t, w, rows, 2))).ReadAll()
	require.NoError(t, err)
	share, distinct, named := map[string]int{}, map[string]bool{}, 0
	for _, row := range all[1:] {
		email := strings.ToLower(strings.TrimSpace(row[3]))
		_, domain, ok := split(email)
		switch {
		case email == "":
			share["blank"]++
		case !ok:
			share["junk"]++
		case w.byName[domain] == nil:
			t.Fatalf("%q is of no domain", email)
		default:
			share[w.byName[domain].Persona.Provider]++
			if w.byName[domain].typo {
				share["typo"]++
			}
		}
		if local, _, _ := split(email); ok && !isRole([]byte(local)) {
			named++
			distinct[email] = true
		}
	}
	for what, want := range map[string]float64{"google": 34, "microsoft365": 16, "outlook": 8.8, "yahoo": 7.8,
		"icloud": 2.9, "junk": 1, "blank": 0.5, "typo": 1} {
		got := float64(share[what]) * 100 / rows
		require.InDelta(t, want, got, max(1.5, want/8), what)
	}
	repeated := float64(named-len(distinct)) * 100 / rows
	require.InDelta(t, 2.5, repeated, 1)
}

// The state that the generator asks for is the state that the world has.
func TestListMailboxesHaveTheirState(t *testing.T) {
	w := New(Config{})
	rg := rowGenerator{World: w, seed: 1}
	counts := [persona.MailboxStates]int{}
	for i := range 20_000 {
		p := rg.personAt(i)
		local := appendLocal(nil, p)
		m := w.MailboxOf(p.domain, local)
		counts[m]++
		if !isRole(local) && !bytes.ContainsRune(local, '_') {
			require.Equal(t, wantedState(p.random>>48), m, "%s@%s", local, p.domain.Name)
		}
	}
	for m, n := range counts {
		require.Positive(t, n, "state %d", m)
	}
}

func BenchmarkList(b *testing.B) {
	w := New(Config{})
	b.ResetTimer()
	require.NoError(b, WriteList(io.Discard, w, b.N, 1))
}

// TestHostileListIsEven: each hostile domain has as many rows, half of them of mailboxes that exist, and the truth
// knows them.
func TestHostileListIsEven(t *testing.T) {
	w := New(Config{Seed: 7, Hostile: true})
	const each = 24
	var list, again bytes.Buffer
	require.NoError(t, WriteHostile(&list, w, each*len(w.hostile), 5))
	require.NoError(t, WriteHostile(&again, w, each*len(w.hostile), 5))
	require.Equal(t, list.String(), again.String())
	records, err := csv.NewReader(&list).ReadAll()
	require.NoError(t, err)
	rows, present := map[string]int{}, map[string]int{}
	for _, rec := range records[1:] {
		local, domain, _ := strings.Cut(rec[3], "@")
		rows[domain]++
		if w.Mailbox(domain, local) == persona.Present {
			present[domain]++
		}
		d, _ := w.Domain(domain)
		require.Equal(t, d.Persona.Expect(w.Mailbox(domain, local)), w.Truth(rec[3]))
	}
	for _, at := range w.hostile {
		name := w.domains[at].Name
		require.Equal(t, each, rows[name], name)
		require.Equal(t, each/2, present[name], name)
	}
}
