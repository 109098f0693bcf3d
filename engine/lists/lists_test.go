package lists

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/publicsuffix"

	"probity/engine"
	"probity/engine/typo"
)

func defaultSet(t testing.TB) *Set {
	t.Helper()
	s, err := Default()
	require.NoError(t, err)
	return s
}

func address(t testing.TB, s string) engine.Address {
	t.Helper()
	a, err := engine.Parse(s)
	require.NoError(t, err, s)
	return a
}

func TestMajorDomainsAreFreeAndNotDisposable(t *testing.T) {
	s := defaultSet(t)
	for d := range typo.MajorDomains() {
		require.Equal(t, engine.FlagFree, s.Flags(address(t, "ann.lee@"+d)), d)
		require.True(t, s.Known(d), d)
	}
}

func TestFlags(t *testing.T) {
	const none = engine.Flags(0)
	s := defaultSet(t)
	for in, want := range map[string]engine.Flags{
		"ann@mailinator.com": engine.FlagDisposable, "ann@x.y.mailinator.com": engine.FlagDisposable,
		"info@yopmail.com": engine.FlagDisposable | engine.FlagRole,
		"ann@gmail.com":    engine.FlagFree, "ann@mail.gmail.com": none,
		"info@gmail.com": engine.FlagRole | engine.FlagFree,
		"ann@gmial.com":  engine.FlagTypo | engine.FlagDisposable, "ann@gmaill.com": engine.FlagTypo,
		"sales@hotmail.con": engine.FlagTypo | engine.FlagRole,
		"ann@example.com":   none, "ann@yopmail.com.example.org": none, "ann@co.uk": none, "ann@x.duckdns.org": none,
	} {
		require.Equal(t, want, s.Flags(address(t, in)), in)
	}
	require.Zero(t, s.Flags(engine.Address{}))
}

func TestRole(t *testing.T) {
	s := defaultSet(t)
	for _, local := range strings.Fields(`abuse noc security postmaster hostmaster usenet news webmaster www uucp ftp info marketing sales support list-request
		admin contact hello team noreply no-reply no.reply do_not_reply mailer-daemon hr it jobs billing info+spam sales2 sales-01 sales.uk eu-support
		support.emea info_office info.de sales.team webmaster.2 kontakt contacto ventas`) {
		require.True(t, s.Role(local), local)
	}
	for _, local := range strings.Fields(`ann ann.lee sales.smith info.marcus john.sales uk de.uk 123 1 a.b +info hr.al it.al salesman alexa paris per
		informal "info" ínfo . -`) {
		require.False(t, s.Role(local), local)
	}
	require.False(t, s.Role(""))
	require.False(t, s.Role(strings.Repeat("a", 100)))
}

func TestSuggest(t *testing.T) {
	s := defaultSet(t)
	require.Equal(t, "ann+x@gmail.com", s.Suggest(address(t, "Ann+x@gmial.com")))
	require.Equal(t, "", s.Suggest(address(t, "ann@gmail.com")))
	require.Equal(t, "", s.Suggest(address(t, "ann@email.com")), "known")
	require.Equal(t, "", s.Suggest(address(t, "ann@example.com")))
}

func TestNoPublicSuffixIsListed(t *testing.T) {
	s := defaultSet(t)
	check := func(d string) {
		suffix, icann := publicsuffix.PublicSuffix(d)
		require.False(t, icann && suffix == d, d)
	}
	s.disposable.each(check)
	s.free.each(check)
	s.free.each(func(d string) { require.False(t, s.Disposable(d), d) })
}

// TestListsMatchTheirInputs fails when an input of the generator was changed and make generate was not run.
func TestListsMatchTheirInputs(t *testing.T) {
	tools := filepath.Join("..", "..", "tools", "lists")
	hash := sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", "generate.mjs", "edits.json"} {
		b, err := os.ReadFile(filepath.Join(tools, name))
		require.NoError(t, err)
		_, _ = fmt.Fprintf(hash, "%s %d\n%s", name, len(b), b)
	}
	require.Equal(t, fmt.Sprintf("sha256:%x", hash.Sum(nil)), defaultSet(t).Fingerprint(), "run make generate")
	lock, err := os.ReadFile(filepath.Join(tools, "package-lock.json"))
	require.NoError(t, err)
	require.NotContains(t, string(lock), "://", "the lock file names a host")
}

func TestSizes(t *testing.T) {
	require.Less(t, len(embedded), 1<<19)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := defaultSet(t)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
	n := s.Counts()
	require.Greater(t, n.Disposable, 30000)
	require.Greater(t, n.Free, 4000)
	require.Greater(t, n.Role, 500)
}

func TestLookupAllocatesNothing(t *testing.T) {
	s := defaultSet(t)
	for _, in := range []string{"ann@gmail.com", "no-reply@a.b.mailinator.com", "sales.uk@example.com",
		"ann@gmaill.com"} {
		a := address(t, in)
		require.Zero(t, testing.AllocsPerRun(100, func() { s.Flags(a) }), in)
	}
}

// listsText is a small file of lists.
func listsText(disposable ...string) string {
	var free []string
	for d := range typo.MajorDomains() {
		free = append(free, d)
	}
	return version + "\ninputs sha256:0\nfrom x@1\n" + section("disposable", disposable) + section("free", free) +
		section("alias", []string{"alias.example"}) + section("role", []string{"info", "sales"}) +
		section("qualifier", []string{"uk"})
}

func section(name string, entries []string) string {
	s := fmt.Sprintf("[%s] %d\n", name, len(entries))
	for _, e := range entries {
		s += e + "\n"
	}
	return s
}

func readPlain(t testing.TB, file string) *Set {
	t.Helper()
	s, err := read(file)
	require.NoError(t, err)
	require.NoError(t, s.checkMajorDomains())
	return s
}

func TestReload(t *testing.T) {
	ten := strings.Fields("a0.com a1.com a2.com a3.com a4.com a5.com a6.com a7.com a8.com a9.com")
	old := readPlain(t, listsText(ten...))
	require.True(t, old.Disposable("x.a0.com"))
	require.Equal(t, "sha256:0", old.Fingerprint())

	next := readPlain(t, listsText(append(ten[1:], "b.com")...))
	require.NoError(t, old.CheckReload(next), "one of ten may go")
	require.True(t, next.Disposable("b.com"))
	require.False(t, next.Disposable("a0.com"))

	for name, file := range map[string]string{
		"disposable": listsText(ten[2:]...),
		"free": strings.Replace(listsText(ten...), section("free", slices.Collect(typo.MajorDomains())),
			section("free", []string{"a.example"}), 1),
		"alias": strings.Replace(listsText(ten...), "alias.example", "other.example", 1),
		"role":  strings.Replace(listsText(ten...), "\nsales\n", "\ncontact\n", 1),
	} {
		next, err := read(file)
		require.NoError(t, err, name)
		err = old.CheckReload(next)
		require.ErrorIs(t, err, ErrRefused, name)
		require.ErrorContains(t, err, "of the "+name+" list, a fifth or more; the lists in force stay")
	}
}

func TestInvalidListsAreRefused(t *testing.T) {
	ten := strings.Fields("a0.com a1.com a2.com a3.com a4.com a5.com a6.com a7.com a8.com a9.com")
	for name, file := range map[string]string{
		"another version":      strings.Replace(listsText(ten...), "lists 2", "lists 1", 1),
		"empty":                "",
		"not text":             "\x00\x01\x02",
		"cut short":            listsText(ten...)[:900],
		"cut in its last line": strings.TrimSuffix(listsText(ten...), "\n"),
		"a section is missing": strings.Replace(listsText(ten...), section("qualifier", []string{"uk"}), "", 1),
		"no alias section": strings.Replace(listsText(ten...), section("alias", []string{"alias.example"}), "",
			1),
		"a section comes twice":    listsText(ten...) + section("qualifier", []string{"uk"}),
		"an unknown section":       listsText(ten...) + section("other", nil),
		"an entry comes twice":     listsText(append(ten, "a0.com")...),
		"an entry is not a domain": listsText(append(ten, "a_.com")...),
		"an entry is upper-case":   listsText(append(ten, "A.com")...),
		"a count is a lie":         strings.Replace(listsText(ten...), "[disposable] 10", "[disposable] 999999999", 1),
		"a blank line":             listsText(ten...) + "\nx\n",
	} {
		s, err := read(file)
		require.ErrorIs(t, err, ErrRefused, name)
		require.Nil(t, s, name)
	}
	for name, file := range map[string]string{
		"gmail is disposable":   listsText(append(ten, "gmail.com")...),
		"the parent of a great": listsText(append(ten, "co.uk", "com.br")...),
		"gmail is an alias":     strings.Replace(listsText(ten...), "\nalias.example\n", "\ngmail.com\n", 1),
		"gmail is not free":     strings.Replace(listsText(ten...), "\ngmail.com\n", "\nzmail.com\n", 1),
	} {
		s, err := read(file)
		require.NoError(t, err, name)
		require.ErrorIs(t, s.checkMajorDomains(), ErrRefused, name)
	}
}

func TestUnpackingIsBounded(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	s, err := load(string(w.EncodeAll([]byte(listsText("a.com")), nil)))
	require.NoError(t, err)
	require.True(t, s.Disposable("a.com"))

	for _, packed := range []string{string(w.EncodeAll(make([]byte, maxText+1), nil)), "\x28\xb5\x2f\xfd broken",
		listsText("a.com"), ""} {
		s, err := load(packed)
		require.ErrorIs(t, err, ErrRefused)
		require.Nil(t, s)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(listsText("a.com"))
	f.Add(listsText("a.com")[:200])
	f.Fuzz(func(t *testing.T, file string) {
		s, err := read(file)
		if err != nil {
			return
		}
		for d := range typo.MajorDomains() {
			s.DomainFlags(d)
		}
		s.disposable.each(func(d string) { require.True(t, s.Disposable("x."+d)) })
	})
}

func BenchmarkFlags(b *testing.B) {
	s := defaultSet(b)
	for _, in := range []string{"ann.lee@gmail.com", "ann.lee@mail.example.com", "ann@mailinator.com"} {
		a := address(b, in)
		b.Run(a.Domain(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Flags(a)
			}
		})
	}
}

func BenchmarkDefault(b *testing.B) {
	for b.Loop() {
		defaultSet(b)
	}
}
