package typo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTyposAreSuggested has common typos of each kind.
func TestTyposAreSuggested(t *testing.T) {
	for want, typos := range map[string]string{
		"gmail.com": `gmial.com gmal.com gmaill.com gnail.com gmail.con gmail.cmo gmail.ocm gmail.co gmail.cm gmail.om gmail.comm gmail.vom gmail.xom gmail.c gmailc.om
			gmail.coom gmail.cim g.mail.com gmailcom gmai.lcom gmail.c.om gamil.com gmil.com gmai.com gmaik.com gmaol.com gmsil.com gjail.com gmaul.com
			gmali.com mgail.com ggmail.com gmmail.com gmaiil.com gmails.com gmeil.com gmaii.com gmai1.com g-mail.com gaiml.com hmail.com fmail.com
			gmai.co gmal.co gmial.con gmaill.cm gmil.cmo gmaul.om gamail.com gmiail.com`,
		"yahoo.com": `yaho.com yahooo.com yhoo.com yaoo.com yahho.com yaoho.com yahoo.con yahoo.co yahoo.cm yahoo.om ayhoo.com yshoo.com yajoo.com yohoo.com
			tahoo.com vahoo.com yah0o.com yahoi.com yahop.com yahoo.comm ahoo.com yaho.co yahooo.con`,
		"hotmail.com": `hotmial.com hotmal.com hotmail.con otmail.com hitmail.com hotmaill.com hotmai.com hotmil.com homail.com hotamil.com htomail.com
			hotmaul.com hotnail.com hormail.com hotmsil.com hotmailcom hotmail.cm hotmail.co hotmails.com hot-mail.com jotmail.com hotmsail.com hotmai.co
			hotmial.con hotmal.cm hotmall.com`,
		"outlook.com": `outlok.com outloook.com outlook.con outlook.co outlok.co outllok.com outlool.com outlokk.com putlook.com oulook.com otulook.com
			outlouk.com utlook.com outlock.com outook.com outlook.comm out.look.com outloo.com outlookl.com 0utlook.com outiook.com`,
		"icloud.com":     "iclould.com icould.com iclod.com iclud.com icloud.con icloud.co icloud.cm ickoud.com iclouf.com icloud.comm icoud.com lcloud.com iclou.co icluod.com",
		"yahoo.co.uk":    "yahoo.co.k yaho.co.uk yahoo.co.ukk yahooo.co.uk yahoo.couk yahoo.c.uk",
		"hotmail.fr":     "hotmail.ft hotmal.fr hotmial.fr",
		"hotmail.co.uk":  "hotmial.co.uk hotmil.co.uk",
		"protonmail.com": "protonmial.com protonmai.com protnmail.com protonmail.con protonmal.co protonmail.co",
		"googlemail.com": "goglemail.com googlemial.com googlemail.co googelmail.com",
		"comcast.net":    "comcast.nte comcst.net comcats.net concast.net",
		"t-online.de":    "t-onlin.de tonline.de t-onlne.de", "yandex.ru": "yandex.r yadex.ru yandx.ru",
		"web.de": "web.ed web.dde", "mail.ru": "mail.rru",
		"aol.com":  "aol.con aol.co aol.cm aol.om aool.com aol.comm aoll.com",
		"live.com": "ilve.com live.con live.comm liev.com livee.com",
		"msn.com":  "msn.con msn.co", "qq.com": "qqq.com qq.con qq.co", "163.com": "163.con 163.co",
		"gmx.de":    "gmx.dee",
		"zoho.com":  "zoho.con zoho.co zohoo.com",
		"orange.fr": "orange.ffr oragne.fr", "seznam.cz": "sezam.cz seznma.cz", "bigpond.com": "bigpond.con bigpon.com",
		"free.fr": "fere.fr freee.fr",
	} {
		for typed := range strings.FieldsSeq(typos) {
			got, ok := Suggest(typed, nil)
			require.Equal(t, want, got, typed)
			require.True(t, ok, typed)
		}
	}
}

// TestOtherNamesAreNoTypos has domains of other companies and providers.
func TestOtherNamesAreNoTypos(t *testing.T) {
	for typed := range strings.FieldsSeq(`gmail.com mail.com ymail.com example.com cloud.com ucloud.com life.com love.com aon.com he.com web.dk free.hr hotmail.dk
		outlook.be never.com libro.it roger.com gm.com com . qmail.com umail.com zmail.com xmail.com wmail.com kmail.com amail.com dmail.com email.com
		imail.com jmail.com lmail.com mmail.com nmail.com omail.com pmail.com rmail.com smail.com bmail.com cmail.com tmail.com vmail.com 8mail.com
		gomail.com gemail.com grail.com gmx.us snail.com quail.com fail.com
		lastmail.com castmail.com eastmail.com coxmail.com boxmail.com pocketmail.com notmail.com dotmail.com potmail.com rotmail.com
		wahoo.com kahoo.com zahoo.com yoo.com yacht.com outdoor.com horizon.net gambler.ru
		alo.com oal.com mns.com snm.com ao.com all.com aoc.com bol.com aal.com mac.co me.co live.co mail.co sky.co rogers.co
		mee.com macc.com wpp.pl ante.com mali.com skyy.com webb.de wbe.de cxo.net ocx.net pw.pl xgm.de dive.com five.com olive.com live.nu love.de
		mc.com ma.com mad.com map.com max.com sin.com soho.com zobo.com qc.com q.com 162.com 136.com 127.com
		inbox.com list.com mail.org gmail.ca gmail.de gmail.fr yahoo.se hotmail.pl outlook.hu icloud.de aol.be aol.ca
		orange.es freed.fr alicia.it tint.it shay.ca charters.net o3.pl onet.eu nota.com gate.com note.com date.com
		some-company.com post.some-company.example google.com apple.com microsoft.com proton.com fastemail.org my-gmail.com`) {
		got, ok := Suggest(typed, nil)
		require.Empty(t, got, typed)
		require.False(t, ok, typed)
	}
	_, ok := Suggest("", nil)
	require.False(t, ok)
}

func TestSuggestNothingForAKnownDomain(t *testing.T) {
	got, ok := Suggest("hmail.com", func(d string) bool { return d == "hmail.com" })
	require.False(t, ok)
	require.Empty(t, got)
}

func TestSuggestInvariants(t *testing.T) {
	var all []string
	for d := range MajorDomains() {
		require.Equal(t, strings.ToLower(d), d)
		require.LessOrEqual(t, len(d), longestMajor)
		require.NotContains(t, all, d)
		_, ok := Suggest(d, nil)
		require.False(t, ok, d)
		all = append(all, d)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(all).Draw(t, "domain")
		i := rapid.IntRange(0, len(d)-2).Draw(t, "at")
		swapped := d[:i] + d[i+1:i+2] + d[i:i+1] + d[i+2:]
		want := swapped
		if got, ok := Suggest(swapped, nil); ok {
			want = got
		}
		if e, _ := oneEdit(swapped, want); want != swapped && e == editNone {
			t.Fatalf("%s is not one edit from %s", want, swapped)
		}
	})
}

// TestOneEdit checks the kinds of edits with strings that are one edit apart.
func TestOneEdit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[a-z.]{3,12}`).Draw(t, "string")
		i := rapid.IntRange(0, len(s)-1).Draw(t, "at")
		c := rapid.StringMatching(`[a-z.]`).Draw(t, "letter")
		for _, made := range []string{s[:i] + c + s[i:], s[:i] + c + s[i+1:], s[:i] + s[i+1:]} {
			if e, at := oneEdit(s, made); (e == editNone) != (made == s) || at >= max(len(s), len(made)) {
				t.Fatalf("%s and %s: %d at %d", s, made, e, at)
			}
		}
		if i+2 < len(s) {
			for _, moved := range []string{s[i+1:i+3] + s[i:i+1], s[i+2:i+3] + s[i:i+2]} {
				made := s[:i] + moved + s[i+3:]
				if e, _ := oneEdit(s, made); (e == editNone) != (made == s) {
					t.Fatalf("%s and %s: %d", s, made, e)
				}
			}
		}
	})
}

func TestKeyboard(t *testing.T) {
	touching := map[byte]string{'g': "tyfhvb", 'a': "qwsz", 'o': "90ipkl", 'p': "0ol", '1': "2q", 'm': "njk",
		'l': "opk"}
	for key, near := range touching {
		for c := byte('0'); c <= 'z'; c++ {
			want := strings.IndexByte(near, c) >= 0
			require.Equal(t, want, adjacent(key, c), "%c %c", key, c)
			require.Equal(t, want, adjacent(c, key), "%c %c", c, key)
		}
	}
	require.True(t, sameRow('g', 'h') && sameRow('f', 'g'))
	require.False(t, sameRow('g', 't') || sameRow('g', 'j') || sameRow('-', '.'))
}

// TestSurelyDistinctIsNoTypo compares surelyDistinct with isTypo: what it skips is never a typo.
func TestSurelyDistinctIsNoTypo(t *testing.T) {
	for want := range MajorDomains() {
		require.GreaterOrEqual(t, len(want), 5, want)
		for i := range want {
			j := min(i+1, len(want)-1)
			k := min(i+2, len(want))
			for _, typed := range []string{
				want[:i] + want[i+1:], want[:i] + "q" + want[i:], want[:i] + "q" + want[i+1:],
				want[:i] + want[i:i+1] + want[i:],
				want[:i] + want[j:k] + want[i:i+1] + want[k:],
				want[:i] + want[j:min(i+3, len(want))] + want[i:i+1] + want[min(i+3, len(want)):],
			} {
				name, tail, dotted := strings.Cut(typed, ".")
				if typed[0] != want[0] && surelyDistinct(typed, want) {
					for kind := distinctName; kind <= distinctWord; kind++ {
						require.False(t, isTypo(typed, name, tail, dotted, want, kind), "%s for %s", typed, want)
					}
				}
			}
		}
	}
}

func BenchmarkSuggest(b *testing.B) {
	for _, domain := range []string{"some-company.com", "post.some-company.example"} {
		b.Run(domain, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Suggest(domain, nil)
			}
		})
	}
}
