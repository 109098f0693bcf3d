package lists

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

func override(t testing.TB, s *Set, file string) *Set {
	t.Helper()
	next, err := s.Override([]byte(file))
	require.NoError(t, err)
	return next
}

func TestOverride(t *testing.T) {
	s := defaultSet(t)
	next := override(t, s, `
# what we learned
[disposable]
add = ["Throw-Away.example", "bücher.example", "duck.com"]
remove = [
  "yopmail.com", # kept for our tests
]
[free]
add = ["post.example", "mailinator.com"]
remove = ["cock.li"]
[alias]
add = ["mask.example"]
[role]
add = ["front-desk-9", "Hausverwalter"]
remove = ["shop"]
`)
	for domain, want := range map[string]engine.Flags{
		"throw-away.example": engine.FlagDisposable, "a.throw-away.example": engine.FlagDisposable,
		"xn--bcher-kva.example": engine.FlagDisposable,
		"duck.com":              engine.FlagDisposable, "yopmail.com": 0, "post.example": engine.FlagFree,
		"mailinator.com": engine.FlagFree, "cock.li": 0,
		"mask.example": engine.FlagAlias, "ann.mask.example": engine.FlagAlias, "gmail.com": engine.FlagFree,
		"guerrillamail.com": engine.FlagDisposable,
	} {
		require.Equal(t, want, next.DomainFlags(domain), domain)
	}
	for local, want := range map[string]bool{"front.desk": true, "frontdesk3": true, "hausverwalter": true,
		"shop": false, "info": true} {
		require.Equal(t, want, next.Role(local), local)
	}
	require.Equal(t, engine.FlagDisposable, s.DomainFlags("yopmail.com"),
		"the lists that it is laid over stay as they are")
	require.NotEqual(t, s.Fingerprint(), next.Fingerprint())
	require.True(t, strings.HasPrefix(next.Fingerprint(), s.Fingerprint()))
	require.NoError(t, s.CheckReload(next))

	same := override(t, s, "")
	require.Equal(t, s.Counts(), same.Counts())
}

func TestOverrideRefusals(t *testing.T) {
	s := defaultSet(t)
	for words, file := range map[string]string{
		`line 2: unknown key "disposable.ad"`: "[disposable]\nad = [\"a.example\"]\n",
		`line 1: unknown key "disposables"`:   "[disposables]\nadd = [\"a.example\"]\n",
		"line 2: expected":                    "[free]\nadd = \"a.example\" \"b\"\n",
		`line 2: free.add: a list of texts in quotes is expected, found a list with 1`: "[free]\nadd = [1]\n",
		`line 3: free: "a b.example"`:                   "[free]\n# \"a b.example\"\nadd = [\"a b.example\"]\n",
		`line 4: alias: "a_.example"`:                   "[free]\nadd = [\"b.example\"]\n[alias]\nadd = [\"a_.example\"]\n",
		`line 2: disposable: "co.uk": names are`:        "[disposable]\nadd = [\"co.uk\"]\n",
		`line 2: alias: "com": `:                        "[alias]\nadd = [\"com\"]\n",
		`line 3: disposable: "gmail.com": gmail.com`:    "[disposable]\nadd = [\"x.example\",\n\"gmail.com\"]\n",
		`line 2: alias: "icloud.com": icloud.com`:       "[alias]\nadd = [\"icloud.com\"]\n",
		`line 2: free: "gmail.com": gmail.com`:          "[free]\nremove = [\"gmail.com\"]\n",
		`line 2: role: "x": a role is`:                  "[role]\nadd = [\"x\"]\n",
		`line 2: role: "büro": a role is`:               "[role]\nadd = [\"büro\"]\n",
		`"a.example": it is in add and in remove`:       "[free]\nadd = [\"a.example\"]\nremove = [\"a.example\"]\n",
		`"a.example": it is added to free as well`:      "[free]\nadd = [\"a.example\"]\n[disposable]\nadd = [\"a.example\"]\n",
		`"a.example": it is added to alias as well`:     "[alias]\nadd = [\"a.example\"]\n[disposable]\nadd = [\"a.example\"]\n",
		`line 2: disposable: "x.yopmail.com": a domain`: "[disposable]\nremove = [\"x.yopmail.com\"]\n",
		`line 2: free: "x.yopmail.com": a domain above`: "[free]\nadd = [\"x.yopmail.com\"]\n",
		`line 2: alias: "x.yopmail.com": a domain`:      "[alias]\nadd = [\"x.yopmail.com\"]\n",
		"at most 8388608 are read":                      strings.Repeat("#", maxOverlay+1),
	} {
		next, err := s.Override([]byte(file))
		require.ErrorIs(t, err, ErrRefused, words)
		require.ErrorContains(t, err, words)
		require.Nil(t, next)
	}
}

func TestRemoveThatRemovesNothingIsAWarning(t *testing.T) {
	s := defaultSet(t)
	require.Empty(t, s.Warnings())
	next := override(t, s, "[disposable]\nremove = [\n\"yopmail.com\",\n\"not-there.example\"]\n[role]\nremove = [\"sales\", \"quokka\"]\n")
	require.Equal(t, []string{
		`line 4: disposable: "not-there.example": it is not on the list, and remove does nothing: correct it, or take it out`,
		`line 6: role: "quokka": it is not on the list, and remove does nothing: correct it, or take it out`},
		next.Warnings())
	require.False(t, next.Disposable("yopmail.com"))
}

// TestReloadThatLosesAFifthIsRefused: a truncated file loses its additions.
func TestReloadThatLosesAFifthIsRefused(t *testing.T) {
	s := defaultSet(t)
	var domains []string
	for i := range 20 {
		domains = append(domains, "\"mask"+string(rune('a'+i))+".example\"")
	}
	now := override(t, s, "[alias]\nadd = ["+strings.Join(domains, ",")+"]\n")
	require.NoError(t, now.CheckReload(override(t, s, "[alias]\nadd = ["+strings.Join(domains[2:], ",")+"]\n")))
	require.ErrorContains(t, now.CheckReload(s), "it loses 20 of the "+strconv.Itoa(s.alias.n+20)+
		" entries of the alias list")
}

// TestDocumentedExampleLoads reads the file that docs/lists.md shows.
func TestDocumentedExampleLoads(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "lists.md"))
	require.NoError(t, err)
	_, example, found := strings.Cut(string(text), "```toml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	next := override(t, defaultSet(t), example)
	require.Equal(t, engine.FlagAlias, next.DomainFlags("ann.masked.example"))
	require.True(t, next.Role("hausverwalter"))
	require.False(t, next.Role("shop"))
}

func FuzzOverride(f *testing.F) {
	s := readPlain(f, listsText("yopmail.com"))
	f.Add("[disposable]\nadd = [\"a.example\"]\nremove = [\"yopmail.com\"]\n[role]\nadd = ['desk-1']\n")
	f.Add("free.add = [\"b.example\"]\n[alias]\nadd = [\"c.example\"]")
	f.Add("[disposable]\nadd = [\"gmail.com\"]")
	f.Fuzz(func(t *testing.T, file string) {
		next, err := s.Override([]byte(file))
		if err != nil {
			require.ErrorIs(t, err, ErrRefused)
			require.Nil(t, next)
			return
		}
		require.NoError(t, next.checkMajorDomains())
		next.free.each(func(d string) { require.False(t, next.Disposable(d), d) })
		next.alias.each(func(d string) { require.False(t, next.Disposable(d), d) })
	})
}
