package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSuggest(t *testing.T) {
	for typed, want := range map[string]string{
		"gmial.com": "gmail.com", "gmal.com": "gmail.com", "gmaill.com": "gmail.com", "gnail.com": "gmail.com", "gmail.con": "gmail.com",
		"gmail.cmo": "gmail.com", "gmail.ocm": "gmail.com", "gmail.co": "gmail.com", "gmail.cm": "gmail.com", "gmail.comm": "gmail.com",
		"gmail.vom": "gmail.com", "g.mail.com": "gmail.com", "gmailcom": "gmail.com", "gmai.lcom": "gmail.com", "gmail.c.om": "gmail.com",
		"yaho.com": "yahoo.com", "yahooo.com": "yahoo.com", "yahoo.co.k": "yahoo.co.uk", "hotmial.com": "hotmail.com", "hotmal.com": "hotmail.com",
		"hotmail.con": "hotmail.com", "otmail.com": "hotmail.com", "hotmail.ft": "hotmail.fr", "outlok.com": "outlook.com", "outloook.com": "outlook.com",
		"iclould.com": "icloud.com", "aol.con": "aol.com", "aool.com": "aol.com", "gmx.dee": "gmx.de", "ilve.com": "live.com", "web.ed": "web.de",
		"mail.rru": "mail.ru", "protonmial.com": "protonmail.com", "comcast.nte": "comcast.net", "t-onlin.de": "t-online.de", "tonline.de": "t-online.de",
		"orange.ffr": "orange.fr", "yandex.r": "yandex.ru", "qqq.com": "qq.com", "163.con": "163.com",

		"gmail.com": "", "mail.com": "", "ymail.com": "", "example.com": "", "cloud.com": "", "life.com": "", "love.com": "", "aon.com": "",
		"he.com": "", "web.dk": "", "free.hr": "", "hotmail.dk": "", "outlook.be": "", "never.com": "", "libro.it": "", "roger.com": "", "gm.com": "",
		"": "", ".": "", "com": "",
	} {
		got, ok := Suggest(typed, nil)
		require.Equal(t, want, got, typed)
		require.Equal(t, want != "", ok, typed)
	}
}

func TestSuggestNothingForAKnownDomain(t *testing.T) {
	got, ok := Suggest("fmail.com", func(d string) bool { return d == "fmail.com" })
	require.False(t, ok)
	require.Empty(t, got)
}

func TestSuggestLaws(t *testing.T) {
	var all []string
	for d := range Great() {
		require.Equal(t, strings.ToLower(d), d)
		require.LessOrEqual(t, len(d), longestGreat)
		require.NotContains(t, all, d)
		_, ok := Suggest(d, nil)
		require.False(t, ok, d)
		all = append(all, d)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(all).Draw(t, "domain")
		i := rapid.IntRange(0, len(d)-2).Draw(t, "at")
		swapped := d[:i] + d[i+1:i+2] + d[i:i+1] + d[i+2:]
		got, ok := Suggest(swapped, nil)
		if ok && oneEdit(swapped, got) == editNone {
			t.Fatalf("%s is not one edit from %s", got, swapped)
		}
	})
}

// TestApart holds the short look against the long one: what it passes over is never one edit away.
func TestApart(t *testing.T) {
	for want := range Great() {
		require.GreaterOrEqual(t, len(want), 5, want)
		for i := range want {
			for _, typed := range []string{
				want, want[:i] + want[i+1:], want[:i] + "q" + want[i:], want[:i] + "q" + want[i+1:], want + "q",
				want[:i] + want[min(i+1, len(want)-1):min(i+2, len(want))] + want[i:i+1] + want[min(i+2, len(want)):],
			} {
				passed := typed[0] != want[0] && apart(typed, want)
				require.False(t, passed && oneEdit(typed, want) != editNone, "%s for %s", typed, want)
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
